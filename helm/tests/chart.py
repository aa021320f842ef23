"""What the chart promises, asked of what it renders. Started by helm/check."""
import argparse
import base64
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import tempfile
import tomllib

import kubernetes_validate
import jsonschema
import yaml

HELM_FOLDER = pathlib.Path(__file__).resolve().parent.parent
CHART = HELM_FOLDER / "receipts"
# The oldest and the newest Kubernetes that objects are checked against.
KUBERNETES = ["1.30", "1.37"]
# Pods of the command: they serve nothing.
COMMANDS = {"migrations", "tools", "test"}
# Programs' defaults that grace periods follow from, in seconds: drain_ms_max of each service.
DRAINS_S = {"gateway": 10, "verifier": 20, "writer": 20, "analytics-api": 10, "publisher-api": 10}
# drain_delay_ms that the chart gives the services with a port, in seconds.
DELAY_S = 10
SERVICES = list(DRAINS_S)

# What the services need at least, and every part of the chart switched on.
IMAGE = {"image": {"registry": "registry.example.com"}}
ENGINES = {
    **IMAGE,
    "config": {"kafka": {"brokers": "kafka:9092"}, "warehouse": {"url": "https://clickhouse:8443"}},
    "secrets": {"accountsUrl": "postgres://receipts:hunter-accounts@postgres/receipts?sslmode=require"},
    "gateway": {"acknowledgementKeysSecret": "acknowledgement"},
}
EVERYTHING = {
    **ENGINES,
    "commonLabels": {"team": "data"},
    "commonAnnotations": {"note": "all"},
    "image": {"registry": "registry.example.com/team", "digest": "sha256:" + "0" * 64, "pullSecrets": ["pull", {"name": "other"}]},
    "secrets": {
        "accountsUrl": "postgres://receipts:hunter-accounts@postgres/receipts?sslmode=require",
        "kafkaSaslUsername": "kafka-user",
        "kafkaSaslPassword": "hunter-kafka",
        "warehouseUser": "warehouse-user",
        "warehousePassword": "hunter-warehouse",
        "redisPassword": "hunter-redis",
        "smtpPassword": "hunter-smtp",
        "authHs256Secret": "hunter-auth-0123456789-0123456789-0123",
    },
    "mounts": [{"name": "tls", "secret": "tls", "path": "/etc/receipts/tls", "keys": ["ca.pem"]}, {"name": "ids", "configMap": "ids", "path": "/ids"}],
    "gateway": {
        "acknowledgementKeysSecret": "acknowledgement", "autoscaling": {"enabled": True}, "service": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        "extraEnv": [{"name": "RUST_BACKTRACE", "value": "1"}], "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high",
        "tolerations": [{"key": "a", "operator": "Exists"}], "podLabels": {"x": "y"}, "podAnnotations": {"x": "y"},
    },
    "verifier": {"autoscaling": {"enabled": True, "type": "hpa"}, "podDisruptionBudget": {"maxUnavailable": None, "minAvailable": "50%"}},
    "writer": {"autoscaling": {"enabled": True, "type": "hpa"}},
    "analyticsApi": {"autoscaling": {"enabled": True}},
    "ingress": {"enabled": True, "host": "a.example"},
    "gatewayApi": {
        "enabled": True, "parentRefs": [{"name": "edge", "namespace": "edge"}],
        "hostnames": ["a.example", "b.example"],
    },
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "ipFamilyPolicy": "PreferDualStack",
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}, "data": {"a": "b"}}],
    "monitoring": {k: {"enabled": True, "labels": {"release": "prometheus"}} for k in ["serviceMonitor", "prometheusRule", "dashboards"]},
}


# Variables of the secrets that values files name.
SECRETS = {f"RECEIPTS_{name}": "postgres://r:p@h/d?sslmode=require" if name == "ACCOUNTS_URL" else "hunter" for name in [
    "ACCOUNTS_URL", "KAFKA_SASL_USERNAME", "KAFKA_SASL_PASSWORD", "WAREHOUSE_USER", "WAREHOUSE_PASSWORD", "REDIS_PASSWORD", "SMTP_PASSWORD",
]}


class OnceLoader(yaml.SafeLoader):
    """Refuses a key that comes twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key twice: {keys} {node.start_mark}"
        return super().construct_mapping(node, deep)


class Chart:
    def __init__(self, helm, receipts):
        self.helm, self.receipts = helm / "helm", receipts
        self.crds = {}
        for path in (helm / "crds").glob("*.yaml"):
            crd = yaml.safe_load(path.read_text())
            for version in crd["spec"]["versions"]:
                kind = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
                self.crds[kind] = strict(version["schema"]["openAPIV3Schema"])

    def run(self, *arguments, values=(), files=()):
        """Helm's answer: (ended well, output, error)."""
        with tempfile.TemporaryDirectory() as folder:
            words = [self.helm, *arguments, "--kube-version", "1.34.0"]
            for file in files:
                words += ["--values", file]
            for number, given in enumerate(values):
                file = pathlib.Path(folder) / f"{number}.json"
                file.write_text(json.dumps(given))
                words += ["--values", file]
            # Helm's own folders, that it neither reads nor writes the user's.
            environment = {**os.environ, **{f"HELM_{kind}_HOME": folder for kind in ["CACHE", "CONFIG", "DATA"]}}
            done = subprocess.run(words, capture_output=True, text=True, env=environment)
            return done.returncode == 0, done.stdout, done.stderr

    def template(self, *values, files=()):
        good, out, error = self.run("template", "rel", CHART, "--namespace", "here", values=[IMAGE, *values], files=files)
        assert good, error
        return [one for one in yaml.load_all(out, OnceLoader) if one]

    def refuses(self, *values):
        """The reason for which values are refused."""
        good, _, error = self.run("template", "rel", CHART, values=values)
        assert not good, f"taken: {values}"
        return error

    def validate(self, objects):
        for one in objects:
            kind = (one["apiVersion"], one["kind"])
            name = f"{one['kind']} {one['metadata']['name']}"
            if kind in self.crds:
                errors = list(jsonschema.Draft7Validator(self.crds[kind]).iter_errors(one))
                assert not errors, f"{name}: {[error.message for error in errors]}"
                continue
            for version in KUBERNETES:
                try:
                    kubernetes_validate.validate(one, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    raise AssertionError(f"{name} (Kubernetes {version}): {error.message} at {list(error.path)}") from error


def strict(schema):
    """A CRD's schema that refuses fields it doesn't name, as the strict ones of Kubernetes do."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if schema.pop("nullable", False) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    # metadata of the top is Kubernetes' own, and only said to be an object.
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_ended:
        schema["additionalProperties"] = False
    return schema


def only(objects, kind, ending=""):
    found = [one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(ending)]
    assert len(found) == 1, f"{kind} *{ending}: {[one['metadata']['name'] for one in found]}"
    return found[0]


def pods(objects):
    """Every pod template with the name of its component."""
    for one in objects:
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            template = one["spec"]["template"]
            yield template["metadata"]["labels"]["app.kubernetes.io/component"], template


def configurations(objects):
    for one in objects:
        if one["kind"] == "ConfigMap":
            for key, text in one["data"].items():
                if key.endswith(".toml"):
                    yield key.removesuffix(".toml"), text


def check_pods(objects):
    for name, pod in pods(objects):
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False and spec["serviceAccountName"] != "default", name
        security = spec["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] != 0 and security["seccompProfile"]["type"] == "RuntimeDefault", name
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["requests"]["memory"] and container["resources"]["limits"]["memory"], name
        if name in COMMANDS:
            assert "ports" not in container, name
            continue
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe, path in [("startupProbe", "/healthz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")]:
            asked = container[probe]["httpGet"]
            assert (asked["path"], asked["port"]) == (path, "metrics") and ports["metrics"], f"{name}: {probe}"
        drain = DRAINS_S.get(name) or 2 * DRAINS_S["verifier"] + 30
        delay = 0 if name in ("verifier", "writer") else DELAY_S
        assert spec["terminationGracePeriodSeconds"] > delay + drain, f"{name}: grace"
        assert "lifecycle" not in container, f"{name}: SIGTERM begins the delay in which load balancers learn"


def check_secrets(objects, values):
    """No secret stands anywhere but in a Secret, and each is handed to those that read it."""
    secret = {value for key, value in values["secrets"].items() if "User" not in key}
    rest = json.dumps([one for one in objects if one["kind"] != "Secret"])
    assert "hunter" not in rest, "a secret is outside of Secrets"
    held = only([one for one in objects if "helm.sh/hook" not in one["metadata"].get("annotations", {})], "Secret")
    assert {base64.b64decode(value).decode() for value in held["data"].values()} == secret
    given = {name: {env["name"] for env in pod["spec"]["containers"][0]["env"] if "valueFrom" in env} for name, pod in pods(objects)}
    assert given["gateway"] == {"RECEIPTS_KAFKA_SASL_PASSWORD"}, given["gateway"]
    assert given["verifier"] == {"RECEIPTS_KAFKA_SASL_PASSWORD", "RECEIPTS_ACCOUNTS_URL"}, given["verifier"]
    assert given["writer"] == {"RECEIPTS_KAFKA_SASL_PASSWORD", "RECEIPTS_WAREHOUSE_PASSWORD"}, given["writer"]
    assert set.union(*given.values()) == set(held["data"]), given


def check_flows(objects):
    """What isn't named is denied; no engine is reached by a service that doesn't need it."""
    policies = {one["metadata"]["name"].removeprefix("rel-receipts-"): one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    deny = policies.pop("deny")
    assert sorted(deny["policyTypes"]) == ["Egress", "Ingress"] and not deny.get("ingress") and not deny.get("egress")
    components = dict(pods(objects))
    assert set(policies) == set(components), policies.keys()
    for name, policy in policies.items():
        selector = policy["podSelector"]["matchLabels"]
        labels = components[name]["metadata"]["labels"]
        assert selector.items() <= labels.items() and deny["podSelector"]["matchLabels"].items() <= labels.items(), name
    reached = {name: {port["port"] for flow in policy["egress"] for port in flow["ports"]} for name, policy in policies.items()}
    if "gateway" in reached:
        kafka, clickhouse, postgresql, dns = {9092, 9093}, {8123, 8443}, {5432}, {53}
        assert reached["gateway"] == dns | kafka, reached
        assert reached["verifier"] == dns | kafka | postgresql, reached
        assert reached["writer"] == dns | kafka | clickhouse, reached
        assert not kafka & (reached["analytics-api"] | reached["publisher-api"]), reached


def check_hooks(objects):
    """The migrations run before the release's own objects are there, and bring all that they need."""
    hooks = {one["kind"]: one for one in objects if "pre-install" in one["metadata"].get("annotations", {}).get("helm.sh/hook", "")}
    assert set(hooks) == {"ServiceAccount", "ConfigMap", "Secret", "NetworkPolicy", "Job"}, hooks.keys()
    weights = {kind: int(one["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for kind, one in hooks.items()}
    assert all(weight < weights["Job"] for kind, weight in weights.items() if kind != "Job"), weights
    flows = hooks["NetworkPolicy"]["spec"]
    assert flows["podSelector"]["matchLabels"].items() <= hooks["Job"]["spec"]["template"]["metadata"]["labels"].items()
    assert {port["port"] for flow in flows["egress"] for port in flow["ports"]} == {53, 5432, 8123, 8443, 9092, 9093}, flows


def check_selectors(objects):
    """Every Service, budget and monitor finds what it is for."""
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(objects) if name not in COMMANDS}
    ports = {name: {port["name"] for port in pod["spec"]["containers"][0]["ports"]} for name, pod in pods(objects) if name not in COMMANDS}
    services = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Service"}
    for name, service in services.items():
        found = [component for component, held in labels.items() if service["spec"]["selector"].items() <= held.items()]
        assert found and all(service["spec"]["ports"][0]["targetPort"] in ports[component] for component in found), name
    for budget in (one for one in objects if one["kind"] == "PodDisruptionBudget"):
        selector = budget["spec"]["selector"]["matchLabels"]
        assert sum(selector.items() <= held.items() for held in labels.values()) == 1, budget["metadata"]["name"]
    for monitor in (one for one in objects if one["kind"] == "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [name for name, service in services.items() if wanted <= service["metadata"]["labels"].items()]
        assert found == ["rel-receipts-metrics"], found
    for route in (one for one in objects if one["kind"] in ("Ingress", "HTTPRoute")):
        for name in [end["name"] for end in find(route, "service") + sum(find(route, "backendRefs"), [])]:
            assert name in services, name


def check_labels(chart):
    """Labels of values are everywhere, and never among those that select."""
    labels = {"app.kubernetes.io/part-of": "x", "app.kubernetes.io/component": "web", "team": "data"}
    objects = chart.template(ENGINES, {"commonLabels": labels, "gateway": {"podLabels": {"app.kubernetes.io/component": "web", "a": "b"}}})
    check_selectors(objects)
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "x" for one in objects)
    gateway = dict(pods(objects))["gateway"]["metadata"]["labels"]
    assert gateway["team"] == "data" and gateway["a"] == "b", gateway


def check_routes(chart):
    """At the one host, each service has the addresses that its code names; one pod has all."""
    def paths(objects):
        (ingress,) = [one for one in objects if one["kind"] == "Ingress"]
        (rule,) = ingress["spec"]["rules"]
        return [(end["backend"]["service"]["name"], end["pathType"], end["path"]) for end in rule["http"]["paths"]]

    on = {"ingress": {"enabled": True, "host": "receipts.example.com"}}
    found = paths(chart.template(ENGINES, on))
    assert len(found) == len({(match, path) for _, match, path in found}), "an address of two services"
    for service in ("analytics-api", "publisher-api"):
        code = (HELM_FOLDER.parent / service / "src/lib.rs").read_text()
        wanted = set(re.findall(r'"([^"]+)"', re.search(r"pub const PREFIXES: .*?= \[(.*?)\];", code, re.DOTALL).group(1)))
        given = {path for name, match, path in found if name.endswith(service) and match == "Prefix"}
        assert given == wanted, f"{service}: {given ^ wanted}"
    assert paths(chart.template({"mode": "allInOne"}, on)) == [("rel-receipts-gateway", "Prefix", "/")]
    (pod,) = [pod for _, pod in pods(chart.template({"mode": "allInOne"}))]
    assert [port["name"] for port in pod["spec"]["containers"][0]["ports"]] == ["gateway", "metrics"]
    own = {"mode": "allInOne", "config": {"analytics": {"listen": "0.0.0.0:8081"}}}
    (pod,) = [pod for _, pod in pods(chart.template(own))]
    assert [port["name"] for port in pod["spec"]["containers"][0]["ports"]] == ["gateway", "analytics", "metrics"]


def check_monitoring(objects):
    """Rules and dashboards arrive as their files have them, and every selector of a rule has the release's matchers."""
    files = sorted((CHART / "files/rules").glob("*.yaml"))
    wanted = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    rules = sorted((one for one in objects if one["kind"] == "PrometheusRule"), key=lambda one: one["metadata"]["name"])
    groups = [group for one in rules for group in one["spec"]["groups"]]
    for rule in find(groups, "rules"):
        for one in rule:
            named = re.findall(r"\b(?:receipts[_:][a-z0-9_:]+|up|kube_[a-z_]+)\b(.{0,24})", one["expr"])
            assert named and all(rest.startswith('{namespace="here"') for rest in named), one["expr"]
            release = '{namespace="here",release="rel"'
            bare = one["expr"].replace(release + ", ", "{").replace(release + "}", "")
            bare = bare.replace('{namespace="here", ', "{").replace('{namespace="here"}', "")
            one["expr"] = bare.replace("rel-receipts", ".*receipts.*")
    assert wanted and groups == wanted
    (monitor,) = [one for one in objects if one["kind"] == "ServiceMonitor"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert {one["targetLabel"] for one in endpoint["relabelings"]} == {"job", "release"}, endpoint
    shown = [one["data"] for one in objects if one["kind"] == "ConfigMap" and "-dashboard-" in one["metadata"]["name"]]
    files = list((CHART / "files/dashboards").glob("*.json"))
    assert files and len(shown) == len(files)
    for data in shown:
        for name, text in data.items():
            assert json.loads(text) == json.loads((CHART / "files/dashboards" / name).read_text()), name


def check_runbook_urls(chart):
    base = {"monitoring": {"prometheusRule": {"enabled": True, "runbookBaseUrl": "https://wiki.example.com/receipts/"}}}
    rules = [one for one in chart.template(ENGINES, base) if one["kind"] == "PrometheusRule"]
    urls = find(rules, "runbook_url")
    assert len(urls) > 20 and all(url.startswith("https://wiki.example.com/receipts/Receipts") for url in urls), urls


def check_notes(chart):
    """What an operator should know is said after an install."""
    def notes(*values):
        with tempfile.TemporaryDirectory() as folder:
            # Helm shows them only where it reaches a cluster: in this copy they are the text of an
            # object.
            copy = pathlib.Path(folder) / "receipts"
            shutil.copytree(CHART, copy)
            text = "".join(f"    {line}\n" for line in (copy / "templates/NOTES.txt").read_text().splitlines())
            head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: |\n    Notes:\n"
            (copy / "templates/notes.yaml").write_text(head + text)
            good, out, error = chart.run("template", "rel", copy, "--show-only", "templates/notes.yaml", values=values)
            assert good, error
            return yaml.safe_load(out)["data"]["notes"]

    said = notes(ENGINES, {"monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True, "labels": {"release": "x"}}}})
    assert "monitoring.serviceMonitor.labels is empty" in said and "prometheusRule.labels" not in said, said
    assert "scale statefulset/rel-receipts-tools" in said and "no identity provider" in said, said
    assert "receipts-all-in-one -- receipts keys create" in notes(IMAGE, {"mode": "allInOne"})


def check_image_variables(chart):
    """A variable of an image is stronger than the chart's ConfigMap: each is set again, to what the configuration says."""
    text = (HELM_FOLDER.parent / "Dockerfile").read_text()
    assert "VOLUME" not in [line.split(" ")[0] for line in text.splitlines()], "a volume of the image's own hides a folder that nobody keeps"
    set_by_images = set(re.findall(r"\b(RECEIPTS_(?!BUILD_)\w+)=", text)) - {"RECEIPTS_CONFIG"}
    config = {
        "data": {"dir": "/data"}, "telemetry": {"log_format": "text", "metrics_listen": "0.0.0.0:9091"}, "warehouse": {"library": "/data/libchdb.so"},
        "gateway": {"listen": "0.0.0.0:8443"},
    }
    (pod,) = [pod for _, pod in pods(chart.template({"mode": "allInOne", "config": config}))]
    (container,) = pod["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    for name in set_by_images:
        section, key = name.removeprefix("RECEIPTS_").lower().split("_", 1)
        assert given.get(name) == config[section][key], f"{name} is {given.get(name)}"
    assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"], container["volumeMounts"]
    for name, pod in pods(chart.template(ENGINES, {"config": {"telemetry": {"log_format": "text"}}})):
        given = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert given["RECEIPTS_TELEMETRY_LOG_FORMAT"] == "text", name


def check_one_image(chart):
    """One image runs every service, the migrations and the command; the all-in-one's has the engine."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    for values, image in ((ENGINES, f"registry.example.com/receipts:{version}"), (EVERYTHING, "registry.example.com/team/receipts@sha256:" + "0" * 64)):
        for name, pod in pods(chart.template(values)):
            (container,) = pod["spec"]["containers"]
            assert container["image"] == image, container["image"]
            assert container["args"] == {"migrations": ["migrate"], "tools": ["idle"], "test": ["audit"]}.get(name, ["serve", name]), container["args"]
    (pod,) = [pod for _, pod in pods(chart.template({"mode": "allInOne"}))]
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["args"]) == (f"registry.example.com/receipts-all-in-one:{version}", ["up"])


def check_registry(chart):
    """The registry and the pull secrets that charts share are used; no image is asked of Docker Hub unless it is named."""
    for values in (EVERYTHING, {"mode": "allInOne"}):
        for name, pod in pods(chart.template(values, {"global": {"imageRegistry": "mirror.example.com", "imagePullSecrets": ["mirror"]}})):
            assert pod["spec"]["containers"][0]["image"].startswith("mirror.example.com/receipts"), name
            assert {"name": "mirror"} in pod["spec"]["imagePullSecrets"], name


def check_hatches(chart):
    """What the chart has no value for can be added."""
    extra = {
        "extraVolumes": [{"name": "socket", "emptyDir": {}}], "extraVolumeMounts": [{"name": "socket", "mountPath": "/socket"}],
        "extraContainers": [{"name": "proxy", "image": "proxy:1", "volumeMounts": [{"name": "socket", "mountPath": "/socket"}]}],
    }
    volumes = {key: value for key, value in extra.items() if key != "extraContainers"}
    values = {
        "gateway": extra, "writer": extra, "allInOne": extra, "migrations": volumes, "tools": volumes,
        **{key: EVERYTHING[key] for key in ("dnsConfig", "ipFamilyPolicy", "extraObjects")},
        "serviceAccount": {"create": False, "name": "mine"},
    }
    for base in (ENGINES, {"mode": "allInOne"}):
        objects = chart.template(base, values)
        chart.validate(objects)
        assert only(objects, "ConfigMap", "rel-extra")["data"] == {"a": "b"}
        assert {one["spec"]["ipFamilyPolicy"] for one in objects if one["kind"] == "Service"} == {"PreferDualStack"}
        for name, pod in pods(objects):
            spec = pod["spec"]
            assert spec["serviceAccountName"] == "mine" and spec["dnsConfig"] == values["dnsConfig"], name
            if name in ("gateway", "writer", "all-in-one", *COMMANDS):
                assert extra["extraVolumes"][0] in spec["volumes"] and extra["extraVolumeMounts"][0] in spec["containers"][0]["volumeMounts"], name
            if name in ("gateway", "writer", "all-in-one"):
                assert [one["name"] for one in spec["containers"]] == [name, "proxy"], name


def check_claim(chart):
    """The volume of one pod is made for it, or is a claim that exists."""
    made = only(chart.template({"mode": "allInOne"}), "StatefulSet")["spec"]
    (template,) = made["volumeClaimTemplates"]
    assert template["metadata"]["name"] == "data" and template["spec"]["resources"]["requests"]["storage"] == "50Gi", template
    mine = only(chart.template({"mode": "allInOne", "allInOne": {"persistence": {"existingClaim": "mine"}}}), "StatefulSet")["spec"]
    assert "volumeClaimTemplates" not in mine
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}} in mine["template"]["spec"]["volumes"]


def check_words(chart, module):
    """The schema has each word that the program takes for a setting, and no other."""
    config = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]["properties"]
    for section, keys in config.items():
        for key, schema in keys["properties"].items():
            if schema.get("type") == "string" or "enum" in schema:
                with tempfile.TemporaryDirectory() as folder:
                    file = pathlib.Path(folder) / "receipts.toml"
                    file.write_text(toml({"kafka": {"brokers": "kafka:9092"}} | {section: {key: "no-word"}}))
                    said = subprocess.run([chart.receipts, "config", "check", "--config", file], capture_output=True, text=True).stderr
                expected = re.findall(r"`([^`]+)`", said.split("unknown variant `no-word`")[1].splitlines()[0]) if "unknown variant" in said else None
                assert schema.get("enum") == expected == module["WORDS"].get((section, key)), f"{section}.{key}: {expected}"


def check_tools(chart):
    """The command has what every service has, and doesn't run unless it is wanted."""
    objects = chart.template(EVERYTHING)
    tools = only(objects, "StatefulSet", "-tools")["spec"]
    assert tools["replicas"] == 0 and tools["updateStrategy"] == {"type": "OnDelete"}, tools
    (container,) = tools["template"]["spec"]["containers"]
    assert container["args"] == ["idle"]
    given = {one["name"] for one in container["env"]}
    for name, pod in pods(objects):
        wanted = {one["name"] for one in pod["spec"]["containers"][0]["env"] if one["name"].startswith("RECEIPTS_")}
        assert wanted <= given, f"{name} has {wanted - given}"
    settings = dict(configurations(objects))
    assert tomllib.loads(settings["tools"]) == whole(objects)
    assert not [one for one in chart.template(ENGINES, {"tools": {"enabled": False}}) if one["metadata"]["name"].endswith("-tools")]


def check_small(chart):
    """The load that values-small.yaml speaks of fits its volume, by the measured bytes and the formula of docs/sizing.md."""
    text = (HELM_FOLDER / "values-small.yaml").read_text()
    values = yaml.safe_load(text)
    (rate,) = re.findall(r"some (\d+) receipts a second", text)
    # Tables drop whole months.
    days = values["config"]["warehouse"]["receipts_days_max"] + 31
    sizing = (HELM_FOLDER.parent / "docs/sizing.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in sizing.splitlines() if line.startswith("|")]
    # Single receipts: rate, receipts a request, algorithm, CPU, log, verdicts, and the tables.
    row = next(row for row in rows if len(row) == 10 and row[1] == "1")
    bytes_each = sum(int(cell.replace(",", "")) for cell in row[6:])
    fill = 0.67
    tables_gb = int(rate) * 86_400 * days * bytes_each / fill / 1e9
    log_gb = values["config"]["log"]["retention_bytes_max"] / 1e9 / fill
    size = values["allInOne"]["persistence"]["size"]
    assert size.endswith("Gi")
    disk_gb = int(size.removesuffix("Gi")) * 2**30 / 1e9
    assert tables_gb + log_gb < disk_gb, (tables_gb, log_gb, disk_gb)


def check_accounts(chart):
    """Without a service account of its own nothing is made. A secret that is named is needed, and a service may have its own."""
    named = {"accountsUrl": {"name": "database", "key": "uri"}, "warehousePassword": {"name": "clickhouse", "key": "password"}}
    own = {"warehouseUser": {"name": "writer", "key": "user"}, "warehousePassword": {"name": "writer", "key": "password"}, "kafkaSaslUsername": "writer"}
    objects = chart.template({**ENGINES, "secrets": named, "writer": {"secrets": own}, "serviceAccount": {"create": False}})
    assert not [one for one in objects if one["kind"] in ("ServiceAccount", "Secret")]
    for name, pod in pods(objects):
        assert pod["spec"]["serviceAccountName"] == "default" and pod["spec"]["automountServiceAccountToken"] is False, name
        assert not find(pod, "optional"), name
    given = {name: {one["name"]: one["valueFrom"]["secretKeyRef"] for one in pod["spec"]["containers"][0]["env"] if "valueFrom" in one} for name, pod in pods(objects)}
    assert given["writer"] == {"RECEIPTS_WAREHOUSE_USER": own["warehouseUser"], "RECEIPTS_WAREHOUSE_PASSWORD": own["warehousePassword"]}, given
    users = {name: [one.get("value") for one in pod["spec"]["containers"][0]["env"] if one["name"] == "RECEIPTS_KAFKA_SASL_USERNAME"] for name, pod in pods(objects)}
    assert users["writer"] == ["writer"] and not users["gateway"], users
    assert given["analytics-api"] == {"RECEIPTS_ACCOUNTS_URL": named["accountsUrl"], "RECEIPTS_WAREHOUSE_PASSWORD": named["warehousePassword"]}, given
    made = [one["metadata"]["name"] for one in chart.template(ENGINES) if one["kind"] == "ServiceAccount"]
    used = {pod["spec"]["serviceAccountName"] for _, pod in pods(chart.template(ENGINES))}
    assert sorted(made) == sorted(used), (made, used)


def check_registered(chart):
    """A gateway gets the account store's URL, and reaches it, only where client keys must be registered."""
    for clients, needed in [("open", False), ("registered", True)]:
        objects = chart.template(ENGINES, {"config": {"policy": {"clients": clients}}, "networkPolicy": {"enabled": True}})
        gateway = dict(pods(objects))["gateway"]["spec"]["containers"][0]
        assert ("RECEIPTS_ACCOUNTS_URL" in {one["name"] for one in gateway["env"]}) is needed, clients
        policy = next(one for one in objects if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "rel-receipts-gateway")
        reached = {port["port"] for flow in policy["spec"]["egress"] for port in flow["ports"]}
        assert (5432 in reached) is needed, (clients, reached)


def check_acknowledgement_keys(chart):
    """Only gateways get the private keys; the configuration lists the files."""
    mounted = {"name": "acknowledgement", "mountPath": "/etc/receipts/acknowledgement", "readOnly": True}
    for values in (ENGINES, {"mode": "allInOne", "gateway": ENGINES["gateway"]}):
        objects = chart.template(values)
        has_keys = {name for name, pod in pods(objects) if mounted in pod["spec"]["containers"][0]["volumeMounts"]}
        assert has_keys in ({"gateway"}, {"all-in-one"}), has_keys
        assert find(objects, "secretName") == ["acknowledgement"], find(objects, "secretName")
        keys = whole(objects)["gateway"]["acknowledgement_keys"]
        assert keys == ["/etc/receipts/acknowledgement/acknowledgement.key"], keys
    assert "acknowledgement_keys" not in whole(chart.template({"mode": "allInOne"}))["gateway"]


def check_kafka_users():
    """Strimzi's users of the example have the rights that docs/production.md lists, and no other."""
    documented = set()
    for line in re.findall(r"^\$add User:(.*)$", (HELM_FOLDER.parent / "docs/production.md").read_text(), re.MULTILINE):
        user, *words = line.split()
        options = list(zip(words[::2], words[1::2]))
        pattern = "prefix" if ("--resource-pattern-type", "prefixed") in options else "literal"
        resources = [(key[2:].replace("transactional-id", "transactionalId"), name) for key, name in options if key in ("--topic", "--group", "--transactional-id")]
        documented |= {(user, *one, pattern, operation) for one in resources for key, operation in options if key == "--operation"}
    users = [one for one in yaml.safe_load_all((HELM_FOLDER / "examples/operators-engines.yaml").read_text()) if one["kind"] == "KafkaUser"]
    given = set()
    for user in users:
        for acl in user["spec"]["authorization"]["acls"]:
            one = acl["resource"]
            given |= {(user["metadata"]["name"], one["type"], one["name"], one.get("patternType", "literal"), operation) for operation in acl["operations"]}
    assert given == documented, given ^ documented


def check_commands(chart):
    """What the documents' kubectl commands name and select is in the chart."""
    objects = [one for values in (EVERYTHING, {"mode": "allInOne"}) for one in chart.template(values)]
    objects += chart.template(files=[HELM_FOLDER / "values-production.yaml"])
    # The documents' release is named `receipts`, this one `rel`.
    there = {f"{one['kind'].lower()}/{one['metadata']['name'].removeprefix('rel-')}" for one in objects}
    labels = [{f"{key}={value}" for key, value in pod["metadata"]["labels"].items()} for _, pod in pods(objects)]
    labels = {label.replace("=rel", "=receipts") for label in set.intersection(*labels)}
    root = HELM_FOLDER.parent
    pages = [*root.glob("docs/**/*.md"), CHART / "README.md"]
    commands = [" ".join(text.split()) for page in pages for text in re.findall(r"kubectl\s[^`\n]*(?:\n[^`\n]+)?", page.read_text())]
    named = set(re.findall(r"\b(?:deployment|statefulset|job|scaledobject)/[\w-]+", "\n".join(commands)))
    selected = set(re.findall(r"-l (\S+=[\w-]+)", "\n".join(commands)))
    assert len(named) > 5 and named <= there, named - there
    assert selected and selected <= labels, selected - labels


def check_install(chart):
    """The commands of docs/production.md make each Secret that values-production.yaml names, with each key, and no other."""
    block = re.search(r"^   ```sh\n(.*?)^   ```$", (HELM_FOLDER.parent / "docs/production.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    # Only what the commands' names would be called with.
    printed = subprocess.run(["bash", "-euc", f'receipts() {{ :; }}; kubectl() {{ echo "$@"; }}\n{block}'], capture_output=True, text=True, check=True)
    made = set()
    for _, _, _, name, *options in map(str.split, printed.stdout.splitlines()):
        made |= {(name, option.removeprefix("--from-literal=").removeprefix("--from-file=").split("=")[0]) for option in options}
    objects = chart.template(files=[HELM_FOLDER / "values-production.yaml"])
    needed = {(one["name"], one["key"]) for one in find(objects, "secretKeyRef")}
    files = {"receipts-acknowledgement": "acknowledgement.key", "receipts-tls": "ca.pem"}
    needed |= {(one["secretName"], files[one["secretName"]]) for _, pod in pods(objects) for one in find(pod, "secret")}
    assert made == needed, made ^ needed


def find(tree, key):
    """Every value of a key in a tree."""
    if isinstance(tree, list):
        return [value for part in tree for value in find(part, key)]
    if isinstance(tree, dict):
        return [value for name, part in tree.items() for value in ([part] if name == key else find(part, key))]
    return []


def whole(objects):
    """The sections of all services in one configuration."""
    merged = {}
    for _, text in configurations(objects):
        for section, keys in tomllib.loads(text).items():
            assert merged.setdefault(section, keys) == keys, section
    return merged


def accepts(chart, sections, environment=()):
    """Holds a configuration against `receipts config check`, with a certificate where it names a file that only pods have."""
    with tempfile.TemporaryDirectory() as folder:
        # One file is the authority, the certificate and its key.
        certificate = pathlib.Path(folder) / "all.pem"
        words = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=check", "-keyout", "-"]
        certificate.write_bytes(subprocess.run(words, capture_output=True, check=True).stdout)
        files = {"ssl_ca", "ssl_certificate", "ssl_key", "tls_ca_file", "tls_certificate_file", "tls_key_file", "webhook_entries_file", "jwks_file"}
        there = dict.fromkeys(files, str(certificate)) | {"acknowledgement_keys": [str(certificate)]}
        sections = {name: {key: there.get(key, value) if value else value for key, value in keys.items()} for name, keys in sections.items()}
        text = toml(sections)
        file = pathlib.Path(folder) / "receipts.toml"
        file.write_text(text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RECEIPTS_")}
        words = [chart.receipts, "config", "check", "--config", file]
        done = subprocess.run(words, capture_output=True, text=True, env={**clean, **dict(environment)})
        assert done.returncode == 0, f"{done.stderr}\n{text}"


def toml(sections):
    lines = []
    for section, keys in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines)


def check_every_key(chart, module):
    """Each key of receipts.example.toml, at the example's value, arrives in the configuration of a service, or as its secret."""
    example, secret = module["example"](), module["SECRET"]
    config = {section: {key: value for key, value in keys.items() if (section, key) not in secret} for section, keys in example.items()}
    # The example's values of what has no default needn't fit each other or this machine.
    config["kafka"].update({"brokers": "kafka:9092", "security_protocol": "sasl_ssl", "sasl_username": "receipts"})
    config["warehouse"]["url"], config["redis"]["url"] = "https://clickhouse:8443", "rediss://redis:6379"
    config["auth"].update({"issuer": "https://login.example.com/", "audience": "receipts", "jwks_url": "https://login.example.com/keys"})
    for section, key in [("outbound", "test_root_ca"), ("outbound", "test_resolver"), ("outbound", "test_https_port")]:
        config[section].pop(key)
    objects = chart.template(EVERYTHING, {"config": config})
    chart.validate(objects)
    rendered = whole(objects)
    for section, keys in config.items():
        for key, value in keys.items():
            assert rendered[section][key] == value, f"{section}.{key}: {rendered[section].get(key)} instead of {value}"
    variables = {f"RECEIPTS_{section}_{key}".upper() for section, key in secret}
    held = only([one for one in objects if "helm.sh/hook" not in one["metadata"].get("annotations", {})], "Secret")
    assert set(held["data"]) == variables, variables ^ set(held["data"])
    # Files named in the example aren't here; everything else is judged as it is.
    for section, key in [("auth", "jwks_file"), ("auth", "jwks_url"), ("auth", "issuer"), ("auth", "audience")]:
        rendered[section].pop(key)
    secrets = {name: base64.b64decode(value).decode() for name, value in held["data"].items() if name != "RECEIPTS_AUTH_HS256_SECRET"}
    accepts(chart, rendered, secrets.items())


def check_refusals(chart):
    for values, reported in [
        ({"gatway": {}}, "gatway"),
        ({"gateway": {"replica": 3}}, "replica"),
        ({"gateway": {"service": {"prot": 80}}}, "prot"),
        ({"config": {"gateway": {"drain_ms": 1}}}, "drain_ms"),
        ({"config": {"gatewya": {}}}, "gatewya"),
        ({"config": {"gateway": {"drain_ms_max": "10s"}}}, "drain_ms_max"),
        ({"config": {"telemetry": {"log_format": "jsn"}}}, "log_format"),
        ({"config": {"kafka": {"sasl_mechanism": "OAUTHBEARER"}}}, "sasl_mechanism"),
        ({"config": {"kafka": {"sasl_password": "x"}}}, "sasl_password"),
        ({"config": {"redis": {"url": "redis://u:p@h:1"}}}, "url"),
        ({"secrets": {"kafkaPassword": "x"}}, "kafkaPassword"),
        ({"verifier": {"autoscaling": {"type": "vpa"}}}, "type"),
        ({"verifier": {"replicas": 13}}, "more than 12"),
        ({"verifier": {"autoscaling": {"enabled": True, "minReplicas": 13, "maxReplicas": 20}}}, "minReplicas"),
        ({"writer": {"replicas": 3}}, "one that stands by"),
        ({"writer": {"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 20}}}, "minReplicas"),
        ({"gateway": {"terminationGracePeriodSeconds": 15}}, "may take 26"),
        ({"gateway": {"podDisruptionBudget": {"minAvailable": 1}}}, "podDisruptionBudget"),
        ({"gateway": {"extraEnv": [{"name": "RECEIPTS_GATEWAY_LISTEN", "value": "x"}]}}, "extraEnv"),
        ({"gatewayApi": {"enabled": True}}, "parentRefs"),
        ({"secrets": {"accountsUrl": {"name": "mine"}}}, "accountsUrl"),
        ({"writer": {"secrets": {"warehousePassword": "text"}}}, "warehousePassword"),
        ({"mode": "cluster"}, "mode"),
        ({"serviceAccount": {"name": "mine"}}, "create: false"),
        ({"mounts": [{"name": "a", "path": "/a"}]}, "mounts"),
    ]:
        error = chart.refuses(ENGINES, values)
        assert reported in error, f"{values}: {error}"
    for missing, reported in [("image", "image.registry"), ("config", "brokers"), ("secrets", "PostgreSQL"), ("gateway", "keygen")]:
        assert reported in chart.refuses({key: value for key, value in ENGINES.items() if key != missing})


def check_scaling(chart):
    def objects(**verifier):
        return chart.template(ENGINES, {"verifier": {"autoscaling": {"enabled": True, "maxReplicas": 50, **verifier}}})

    scaled = only(objects(), "ScaledObject")["spec"]
    trigger, busy = scaled["triggers"]
    assert scaled["maxReplicaCount"] == 12 and trigger["metricType"] == "Value", scaled
    assert 'receipts_kafka_lag_records{log="receipts",namespace="here"}' in trigger["metadata"]["query"], trigger
    monitored = only(chart.template(ENGINES, {"verifier": {"autoscaling": {"enabled": True}}}, {"monitoring": {"serviceMonitor": {"enabled": True}}}), "ScaledObject")
    assert '{log="receipts",namespace="here",release="rel"}' in monitored["spec"]["triggers"][0]["metadata"]["query"], monitored
    # Dashboards are to be 10 s old at most; a group that keeps up, with nothing waiting, is held by
    # its CPU.
    assert float(trigger["metadata"]["threshold"]) <= 5, trigger
    assert busy == {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "70"}}, busy
    plain = only(objects(type="hpa"), "HorizontalPodAutoscaler", "-verifier")["spec"]
    assert plain["maxReplicas"] == 12, plain
    # A manifest without a number would set 1 after one with a number; helm/live switches.
    assert only(objects(minReplicas=5), "Deployment", "-verifier")["spec"]["replicas"] == 5
    for given, replicas in [({}, 2), ({"replicas": 7}, 7), ({"replicas": 0}, 0)]:
        fixed = only(chart.template(ENGINES, {"verifier": given}), "Deployment", "-verifier")["spec"]
        assert fixed["replicas"] == replicas, fixed
    # A writer for each shard, and one that stands by.
    for shards, writers in [(None, 2), (4, 5)]:
        config = {"config": {"kafka": {"verdicts_partitions": shards}}} if shards else {}
        scaled = only(chart.template(ENGINES, config, {"writer": {"autoscaling": {"enabled": True}}}), "ScaledObject", "-writer")["spec"]
        query = scaled["triggers"][0]["metadata"]["query"]
        assert scaled["maxReplicaCount"] == writers and 'receipts_kafka_lag_records{log="verdicts",namespace="here"}' in query, scaled
    assert only(chart.template(ENGINES), "Deployment", "-writer")["spec"]["replicas"] == 2


def check_graces(chart):
    """Grace periods follow the drains that are configured."""
    drains = {"gateway": 61, "verifier": 62, "analytics": 63, "publisher": 64, "writer": 65}
    config = {section: {"drain_ms_max": seconds * 1000} for section, seconds in drains.items()}
    graces = {name: pod["spec"].get("terminationGracePeriodSeconds") for name, pod in pods(chart.template(ENGINES, {"config": config}))}
    # Delay, drain, and what closing takes: see receipts.drainSeconds.
    assert graces["gateway"] == 10 + 61 + 6 + 5 and graces["verifier"] == 62 + 12 + 10 + 5, graces
    assert graces["writer"] == 65 + 10 + 5, graces
    assert graces["analytics-api"] == 10 + 63 + 5 and graces["publisher-api"] == 10 + 64 + 5, graces
    small = {name: pod["spec"]["terminationGracePeriodSeconds"] for name, pod in pods(chart.template({"mode": "allInOne", "config": config}))}
    assert small["all-in-one"] == 10 + 61 + 64 + 2 * 62 + 2 * 65 + 63 + 10 + 5, small


def check_restarts(chart):
    """A setting restarts the services that read it, and no other."""
    def sums(values):
        return {name: pod["metadata"].get("annotations") for name, pod in pods(chart.template(EVERYTHING, values)) if name not in COMMANDS}

    before = sums({})
    for values, restarted in [
        ({"config": {"smtp": {"host": "other"}}}, {"publisher-api"}),
        ({"config": {"kafka": {"linger_ms": 2}}}, {"gateway", "verifier", "writer"}),
        ({"config": {"warehouse": {"connections_max": 7}}}, {"writer", "analytics-api", "publisher-api"}),
        ({"secrets": {"redisPassword": "hunter-2"}}, {"analytics-api", "publisher-api"}),
    ]:
        after = sums(values)
        assert {name for name in before if before[name] != after[name]} == restarted, values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--helm", type=pathlib.Path, required=True)
    parser.add_argument("--receipts", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    chart = Chart(arguments.helm, arguments.receipts)
    files = sorted(HELM_FOLDER.glob("values-*.yaml"))
    assert len(files) == 3, files
    count = 0
    for file in [*files, *(HELM_FOLDER / f"examples/{name}.yaml" for name in ("plain", "operators"))]:
        # What only adds to another file has a name that says so.
        used = [HELM_FOLDER / "values-production.yaml", file] if "cluster" in file.name else [file]
        good, out, error = chart.run("lint", "--strict", CHART, files=used)
        assert good, out + error
        objects = chart.template(files=used)
        chart.validate(objects)
        for check in (check_pods, check_flows, check_selectors):
            check(objects)
        used = {env["name"] for _, pod in pods(objects) for env in pod["spec"]["containers"][0]["env"]}
        accepts(chart, whole(objects), [(name, value) for name, value in SECRETS.items() if name in used])
        count += len(objects)
    objects = chart.template(EVERYTHING)
    chart.validate(objects)
    for check in (check_pods, check_flows, check_selectors):
        check(objects)
    check_secrets(objects, EVERYTHING)
    check_hooks(objects)
    check_monitoring(objects)
    names = [(one["kind"], one["metadata"]["name"], "helm.sh/hook" in one["metadata"].get("annotations", {})) for one in objects]
    assert len(names) == len(set(names)), "two objects of one name"
    monitored = {kind for kind, _, _ in names}
    assert {"ServiceMonitor", "Ingress", "HTTPRoute", "HorizontalPodAutoscaler", "Job"} <= monitored, monitored
    check_kafka_users()
    check_refusals(chart)
    check_scaling(chart)
    check_graces(chart)
    check_restarts(chart)
    for check in (check_labels, check_routes, check_runbook_urls, check_notes, check_image_variables, check_one_image, check_registry, check_hatches, check_claim, check_tools, check_small, check_accounts, check_registered, check_acknowledgement_keys, check_commands, check_install):
        check(chart)
    for check in (check_every_key, check_words):
        check(chart, runpy.run_path(str(HELM_FOLDER / "config-schema")))
    print(f"helm/check: {count + len(objects)} objects fit, and the chart keeps what it promises")


if __name__ == "__main__":
    main()
