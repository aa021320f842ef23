"""What the chart does on a real API server: started by helm/live.

No kubelet and no controller runs. This program takes their part where something waits for them: it
ends the hooks' Jobs, scales as an autoscaler does, and makes the claim of a StatefulSet.
"""
import argparse
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import yaml

from chart import CHART, EVERYTHING, HELM_FOLDER, find, pods

TOKEN = "chart-live"
START_WAIT_S_MAX = 120
HELM_WAIT_S_MAX = 60
GATEWAY = "receipts-gateway"
# What an operator makes before the chart: the Secrets that values files name, and their keys.
SECRETS = {
    **{
        f"receipts-clickhouse-{account}": ["username", "password"]
        for account in ("writer", "analytics", "publisher", "tools")
    },
    "receipts-kafka": ["gateway", "verifier", "writer", "tools"],
    **dict.fromkeys(["receipts-redis", "receipts-smtp"], ["password"]),
    **dict.fromkeys(["receipts-acknowledgement", "acknowledgement"], ["acknowledgement.key"]),
    "receipts-postgresql": ["uri"],
    **dict.fromkeys(["receipts-tls", "tls"], ["ca.pem"]),
    # Of operators.
    **{f"receipts-{user}": ["password"] for user in ("gateway", "verifier", "writer", "tools")},
    **dict.fromkeys(["kafka-cluster-ca-cert", "postgres-ca"], ["ca.crt"]),
}
# Operators' kinds, of which the server checks no more than these names.
OPERATORS = [
    ("kafka.strimzi.io", "v1", "Kafka"), ("kafka.strimzi.io", "v1", "KafkaNodePool"), ("kafka.strimzi.io", "v1", "KafkaUser"),
    ("postgresql.cnpg.io", "v1", "Cluster"), ("argoproj.io", "v1alpha1", "Application"),
]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """An API server with its etcd, in a folder of its own."""

    def __init__(self, programs, folder):
        self.folder, self.processes, self.plurals = folder, [], {}
        etcd, peer, port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.tls = ssl._create_unverified_context()
        (folder / "tokens").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", folder / "key.pem", "2048"], check=True, capture_output=True)
        self.start(
            programs / "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{etcd}",
            "--advertise-client-urls", f"http://127.0.0.1:{etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
        )
        self.start(
            programs / "kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{etcd}", "--secure-port", port, "--bind-address", "127.0.0.1",
            "--cert-dir", folder / "certificates", "--token-auth-file", folder / "tokens", "--authorization-mode", "RBAC",
            "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", folder / "key.pem",
            "--service-account-signing-key-file", folder / "key.pem", "--service-cluster-ip-range", "10.96.0.0/16",
            "--endpoint-reconciler-type", "none",
        )
        user = {"clusters": [{"name": "c", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}], "users": [{"name": "u", "user": {"token": TOKEN}}]}
        user |= {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
        self.config = folder / "config"
        self.config.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **user}))

    def start(self, program, *arguments):
        output = (self.folder / f"{program.name}.log").open("w")
        self.processes.append(subprocess.Popen([program, *map(str, arguments)], stdout=output, stderr=output, cwd=self.folder))

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()

    def wait(self):
        deadline = time.monotonic() + START_WAIT_S_MAX
        while time.monotonic() < deadline:
            try:
                return self.ask("GET", "/api/v1/namespaces/kube-system") and self.ask("GET", "/readyz?verbose", text=True)
            except (OSError, Refused):
                time.sleep(0.5)
        raise AssertionError((self.folder / "kube-apiserver.log").read_text()[-3000:])

    def ask(self, method, path, body=None, text=False):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(self.url + path, method=method, headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind})
        try:
            with urllib.request.urlopen(request, json.dumps(body).encode() if body else None, context=self.tls, timeout=30) as answer:
                content = answer.read()
                return content.decode() if text else json.loads(content)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from error

    def get(self, path):
        """An object, or None."""
        try:
            return self.ask("GET", path)
        except Refused as error:
            if error.code != 404:
                raise
            return None

    def define(self, crd):
        """Makes a CRD, and waits until its objects have an address."""
        self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        version = f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
        deadline = time.monotonic() + START_WAIT_S_MAX
        while (version, crd["spec"]["names"]["kind"]) not in self.plurals:
            assert time.monotonic() < deadline, f"{version} isn't there"
            try:
                self.path(version, crd["spec"]["names"]["kind"], "default")
            except (KeyError, Refused):
                time.sleep(0.2)

    def path(self, version, kind, namespace, name=""):
        """The address of a kind's objects, or of one."""
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if (version, kind) not in self.plurals:
            for resource in self.ask("GET", base)["resources"]:
                if "/" not in resource["name"]:
                    self.plurals[version, resource["kind"]] = resource["name"]
        return f"{base}/namespaces/{namespace}/{self.plurals[version, kind]}" + (f"/{name}" if name else "")


def any_fields(group, version, kind):
    """A CRD that takes any fields."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}, "versions": versions}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"}, "spec": spec}


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text[:600]}")
        self.code = code


def differs(meant, found, path=""):
    """The first field that isn't in force as it is meant; what is only in force are the server's defaults."""
    if meant in (None, {}, []):
        return None if found in (None, {}, [], "") else f"{path} is {found}, not empty"
    if isinstance(meant, dict):
        if not isinstance(found, dict):
            return f"{path} is {found}, not {meant}"
        return next(filter(None, (differs(value, found.get(key), f"{path}.{key}") for key, value in meant.items())), None)
    if isinstance(meant, list):
        if not isinstance(found, list) or len(meant) != len(found):
            return f"{path} is {found}, not {meant}"
        return next(filter(None, (differs(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(meant, found)))), None)
    return None if meant == found else f"{path} is {found!r}, not {meant!r}"


class Release:
    """The release `receipts` in a namespace of its own that denies by default and enforces `restricted`."""

    def __init__(self, server, helm, namespace, files, values, ports):
        self.server, self.helm, self.namespace, self.files, self.ports = server, helm, namespace, files, ports
        self.given = [values]
        self.fails_migration, self.jobs_ended = False, 0
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
        deny = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        self.make("networking.k8s.io/v1", "NetworkPolicy", "default-deny", spec=deny)
        self.make("v1", "ServiceAccount", "default")
        for name, keys in SECRETS.items():
            self.make("v1", "Secret", name, stringData=dict.fromkeys(keys, "x"))
        self.make("v1", "ConfigMap", "ids")

    def make(self, version, kind, name, **rest):
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
        return self.server.ask("POST", self.server.path(version, kind, self.namespace), body)

    def objects(self, version, kind):
        return self.server.ask("GET", self.server.path(version, kind, self.namespace))["items"]

    def one(self, version, kind, name):
        return self.server.get(self.server.path(version, kind, self.namespace, name))

    def replicas(self, name=GATEWAY, kind="Deployment"):
        return self.one("apps/v1", kind, name)["spec"]["replicas"]

    def scale(self, replicas, name=GATEWAY, kind="Deployment"):
        """As `kubectl scale` and autoscalers do."""
        path = self.server.path("apps/v1", kind, self.namespace, name)
        self.server.ask("PATCH", f"{path}/scale", {"spec": {"replicas": replicas}})

    def run(self, *words):
        done = subprocess.Popen(
            [self.helm / "helm", *map(str, words), "--namespace", self.namespace, "--kubeconfig", self.server.config],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **{f"HELM_{kind}_HOME": str(self.server.folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}},
        )
        errors = []
        hooks = threading.Thread(target=self.end_hooks, args=(done, errors))
        hooks.start()
        output = done.communicate(timeout=2 * HELM_WAIT_S_MAX)[0]
        hooks.join()
        assert not errors, errors
        return done.returncode, output

    def apply(self, *values):
        """Installs, or upgrades with further values."""
        self.given += values
        words = ["upgrade", "--install", "receipts", CHART, "--timeout", f"{HELM_WAIT_S_MAX}s"]
        for file in self.files:
            words += ["--values", file]
        for number, one in enumerate(self.given):
            file = self.server.folder / f"{self.namespace}-{number}.json"
            file.write_text(json.dumps(one))
            words += ["--values", file]
        code, output = self.run(*words)
        if self.fails_migration:
            assert code != 0 and "failed" in output, output
            return output
        assert code == 0, output
        self.check()
        return output

    def end_hooks(self, helm, errors):
        """Ends each Job that Helm waits for, as its pod would, if the pod would be admitted and reach the engines."""
        while helm.poll() is None:
            for job in self.objects("batch/v1", "Job"):
                if job.get("status", {}).get("conditions"):
                    continue
                try:
                    self.check_pod(job["spec"]["template"])
                    reached = self.egress(job["spec"]["template"]["metadata"]["labels"])
                    assert self.ports <= reached, f"the Job reaches {reached}"
                except (AssertionError, Refused) as error:
                    errors.append(str(error))
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                types = ["FailureTarget", "Failed"] if self.fails_migration or errors else ["SuccessCriteriaMet", "Complete"]
                status = {"startTime": now, "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in types]}
                status |= {"failed": 1} if types[0] == "FailureTarget" else {"succeeded": 1, "completionTime": now}
                self.server.ask("PATCH", self.server.path("batch/v1", "Job", self.namespace, job["metadata"]["name"]) + "/status", {"status": status})
                self.jobs_ended += 1
            time.sleep(0.1)

    def egress(self, labels):
        """The ports that the policies in force let a pod reach."""
        ports = set()
        for policy in self.objects("networking.k8s.io/v1", "NetworkPolicy"):
            if policy["spec"]["podSelector"].get("matchLabels", {}).items() <= labels.items():
                ports |= {port["port"] for flow in policy["spec"].get("egress", []) for port in flow["ports"]}
        return ports

    def check_pod(self, template):
        """A pod of this template is admitted, and what it mounts and reads is there."""
        spec = json.loads(json.dumps(template["spec"]))
        # What a StatefulSet's controller adds.
        claimed = {one["name"] for one in spec["containers"][0]["volumeMounts"]} - {one["name"] for one in spec["volumes"]}
        spec["volumes"] += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claimed]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "asked"}, "spec": spec}
        self.server.ask("POST", self.server.path("v1", "Pod", self.namespace) + "?dryRun=All", pod)
        needed = [("Secret", one["secretName"]) for one in find(template, "secret")]
        needed += [("ConfigMap", one["name"]) for one in find(template, "configMap")]
        needed += [("Secret", one["name"]) for one in find(template, "secretKeyRef")]
        for kind, name in needed:
            assert self.one("v1", kind, name), f"{kind} {name} isn't there"
        for one in find(template, "secretKeyRef"):
            assert one.get("optional") or one["key"] in self.one("v1", "Secret", one["name"])["data"], one

    def check(self):
        """In force is what the release says, nothing else of it is, and its pods would start."""
        code, output = self.run("status", "receipts", "--output", "json")
        assert code == 0 and json.loads(output)["info"]["status"] == "deployed", output
        meant = [one for one in yaml.safe_load_all(self.run("get", "manifest", "receipts")[1]) if one]
        for one in meant:
            name = one["metadata"]["name"]
            found = self.one(one["apiVersion"], one["kind"], name)
            assert found, f"{one['kind']} {name} isn't there"
            wrong = differs(one, found)
            assert not wrong, f"{one['kind']} {name}: {wrong}"
        kinds = {(one["apiVersion"], one["kind"]) for one in meant} | {("autoscaling/v2", "HorizontalPodAutoscaler"), ("keda.sh/v1alpha1", "ScaledObject"), ("batch/v1", "Job")}
        for version, kind in kinds:
            there = {one["metadata"]["name"] for one in self.objects(version, kind) if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm"}
            named = {one["metadata"]["name"] for one in meant if (one["apiVersion"], one["kind"]) == (version, kind)}
            assert there == named, f"{kind}: {there ^ named}"
        for _, template in pods(meant):
            self.check_pod(template)

    def generations(self):
        """Of what runs pods: a changed one restarts them."""
        return {one["metadata"]["name"]: one["metadata"]["generation"] for kind in ("Deployment", "StatefulSet") for one in self.objects("apps/v1", kind)}


def upgrade_again(release):
    before = release.generations()
    release.apply()
    assert release.generations() == before, "an upgrade without a change restarts pods"


def scale(release):
    release.apply({"gateway": {"replicas": 6, "autoscaling": {"enabled": False}}})
    assert release.replicas() == 6
    release.apply({"gateway": {"replicas": None}})
    assert release.replicas() == 6
    release.scale(5)
    release.apply()
    assert release.replicas() == 5


def tools(release):
    release.scale(1, "receipts-tools", "StatefulSet")
    release.apply({"image": {"tag": "next"}, "config": {"kafka": {"linger_ms": 1}}})
    assert release.replicas("receipts-tools", "StatefulSet") == 1
    assert release.one("apps/v1", "StatefulSet", "receipts-tools")["spec"]["updateStrategy"] == {"type": "OnDelete"}


def autoscaling_on(release):
    release.apply({"gateway": {"autoscaling": {"enabled": True, "minReplicas": 3}}, "verifier": {"autoscaling": {"enabled": True, "minReplicas": 3}}})
    assert release.replicas() == 5 and release.replicas("receipts-verifier") >= 3
    release.scale(9)
    release.apply()
    assert release.replicas() == 9


def autoscaling_off(release):
    release.apply({"gateway": {"autoscaling": {"enabled": False}}, "verifier": {"autoscaling": {"enabled": False}}})
    assert release.replicas() == 9


def engine_port(release):
    release.ports = release.ports - {8443} | {9440}
    release.apply({"config": {"warehouse": {"url": "https://clickhouse.data:9440", "shards": []}}, "networkPolicy": {"clickhouse": {"ports": [8443, 9440]}}})
    for name in ("writer", "analytics-api", "publisher-api"):
        labels = release.one("apps/v1", "Deployment", f"receipts-{name}")["spec"]["template"]["metadata"]["labels"]
        assert 9440 in release.egress(labels), name


def failed_migration(release):
    before = release.generations()
    release.fails_migration = True
    release.apply({"config": {"kafka": {"linger_ms": 3}}})
    assert release.generations() == before, "a failed migration changes services"
    release.fails_migration = False
    release.apply()
    assert release.generations() != before


def rollback(release):
    """Back to every third revision that was deployed and is still there, and forward again."""
    history = json.loads(release.run("history", "receipts", "--output", "json")[1])
    for revision in [one["revision"] for one in history if one["status"] == "superseded"][::3]:
        code, output = release.run("rollback", "receipts", revision, "--history-max", 0)
        assert code == 0, output
        release.check()
    release.apply()


def helm_test(release):
    before = release.jobs_ended
    code, output = release.run("test", "receipts")
    assert code == 0 and release.jobs_ended == before + 1, output
    release.check()


def volume_growth(release):
    """By the commands of the chart's README."""
    sizes = '{"spec":{"resources":{"requests":{"storage":"200Gi"}}}}'
    assert f"pvc data-receipts-all-in-one-0 --type=merge -p '{sizes}'" in (CHART / "README.md").read_text()
    (template,) = release.one("apps/v1", "StatefulSet", "receipts-all-in-one")["spec"]["volumeClaimTemplates"]
    growing = {"metadata": {"name": "growing"}, "provisioner": "example.com/disks", "allowVolumeExpansion": True}
    release.server.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", growing)
    name = "data-receipts-all-in-one-0"
    claim = release.make("v1", "PersistentVolumeClaim", name, spec={**template["spec"], "storageClassName": "growing", "volumeName": "disk"})
    path = release.server.path("v1", "PersistentVolumeClaim", release.namespace, name)
    status = {"phase": "Bound", "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"]}
    release.server.ask("PATCH", f"{path}/status", {"status": status})
    before = release.generations()
    assert f"patch pvc {name} --type=merge -p '{sizes}'" in release.apply({"allInOne": {"persistence": {"size": "200Gi"}}})
    release.server.ask("PATCH", path, json.loads(sizes))
    assert release.one("v1", "PersistentVolumeClaim", name)["spec"]["resources"]["requests"]["storage"] == "200Gi"
    assert release.generations() == before, "growing restarts the pod"


def uninstall(release):
    code, output = release.run("uninstall", "receipts")
    assert code == 0, output
    for version, kind in [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("v1", "ConfigMap"), ("v1", "Service"), ("v1", "ServiceAccount"), ("networking.k8s.io/v1", "NetworkPolicy"), ("batch/v1", "Job")]:
        left = [one["metadata"]["name"] for one in release.objects(version, kind) if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm"]
        assert not left, f"{kind}: {left}"
    release.apply()


def install(release):
    release.apply()


def engines(release):
    """The custom resources of the example are taken."""
    for one in yaml.safe_load_all((HELM_FOLDER / "examples/operators-engines.yaml").read_text()):
        release.make(one["apiVersion"], one["kind"], one["metadata"]["name"], spec=one["spec"])


def argo_cd(release):
    """The example's Application is taken, and names a chart and values that are here."""
    one = yaml.safe_load((HELM_FOLDER / "examples/argo-cd.yaml").read_text())
    release.make(one["apiVersion"], one["kind"], one["metadata"]["name"], spec=one["spec"])
    source = one["spec"]["source"]
    chart = HELM_FOLDER.parent / source["path"]
    assert chart == CHART and all((chart / file).resolve().exists() for file in source["helm"]["valueFiles"])


SERVICES = [install, helm_test, upgrade_again, scale, tools, autoscaling_on, autoscaling_off, engine_port, failed_migration, rollback, uninstall]
EVERY_PART = [install, helm_test, upgrade_again, rollback, uninstall]
ALL_IN_ONE = [install, upgrade_again, volume_growth, rollback, uninstall]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--helm", type=pathlib.Path, required=True)
    parser.add_argument("--server", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="one of the table's columns")
    arguments = parser.parse_args()
    production, cluster, small = (HELM_FOLDER / f"values-{name}.yaml" for name in ("production", "clickhouse-cluster", "small"))
    ports = {53, 5432, 8443, 9093}
    plain, operators = (HELM_FOLDER / f"examples/{name}.yaml" for name in ("plain", "operators"))
    releases = [
        ("small", [small], {}, set(), ALL_IN_ONE),
        ("plain", [plain], {}, ports, SERVICES),
        ("operators", [operators], {}, ports, [engines, argo_cd, *EVERY_PART]),
        ("production", [production], {}, ports, EVERY_PART),
        ("clickhouse-cluster", [production, cluster], {}, ports, SERVICES),
        ("every-part", [], EVERYTHING, ports, EVERY_PART),
    ]
    releases = [release for release in releases if arguments.only in (None, release[0])]
    rows, failures = [], []
    with tempfile.TemporaryDirectory(prefix="chart-live-") as folder:
        server = Server(arguments.server, pathlib.Path(folder))
        try:
            server.wait()
            for crd in (arguments.helm / "crds").glob("*.yaml"):
                server.define(yaml.safe_load(crd.read_text()))
            for group, version, kind in OPERATORS:
                server.define(any_fields(group, version, kind))
            server.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1})
            for name, files, values, needed, steps in releases:
                release, results = Release(server, arguments.helm, name, files, values, needed), {}
                for step in steps:
                    began = time.monotonic()
                    try:
                        step(release)
                        results[step.__name__] = f"ok {time.monotonic() - began:.0f} s"
                    except (AssertionError, Refused) as error:
                        results[step.__name__] = "FAILED"
                        failures.append(f"{name}, {step.__name__}: {error}")
                        break
                rows.append((name, results))
        finally:
            server.stop()
    names = list(dict.fromkeys(step.__name__ for *_, steps in releases for step in steps))
    print(f"{'':16}", *(f"{name:>18}" for name, _ in rows))
    for step in names:
        print(f"{step.replace('_', ' '):16}", *(f"{results.get(step, '-'):>18}" for _, results in rows))
    assert not failures, "\n\n".join(failures)
    print("helm/live: every combination is deployed, and in force is what is meant")


if __name__ == "__main__":
    main()
