{{/*
A pod template: {root, component, args, values, sections, secrets, listens, section}. Its admin port is the one that the probes ask:
it answers when the service's own port is full, and isn't reachable from outside.
*/}}
{{- define "receipts.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $admin := include "receipts.port" (dict "root" $root "section" "telemetry" "key" "metrics_listen") -}}
{{- $sums := dict "checksum/config" (include "receipts.toml" . | sha256sum) "checksum/secrets" (include "receipts.secretsOf" . | sha256sum) -}}
metadata:
  {{- include "receipts.podMetadata" (dict "root" $root "component" .component "values" $values "annotations" $sums) | nindent 2 }}
spec:
  {{- include "receipts.podSpec" . | nindent 2 }}
  terminationGracePeriodSeconds: {{ include "receipts.grace" . }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if hasKey $values "topologySpreadConstraints" }}
  topologySpreadConstraints:
    {{- with $values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "receipts.selector" $ | nindent 10 }}
      # Each revision is spread by itself, or a roll would leave both on one node.
      matchLabelKeys: [pod-template-hash]
    {{- end }}
    {{- end }}
  {{- end }}
  containers:
    - {{- include "receipts.container" . | nindent 6 }}
      ports:
        {{- if eq .component "all-in-one" }}
        {{- range $section := list "gateway" "analytics" "publisher" }}
        {{- if eq $section (include "receipts.allInOnePort" (dict "root" $root "section" $section)) }}
        - {name: {{ $section }}, containerPort: {{ include "receipts.port" (dict "root" $root "section" $section "key" "listen") }}, protocol: TCP}
        {{- end }}
        {{- end }}
        {{- else if .listens }}
        - {name: http, containerPort: {{ include "receipts.port" (dict "root" $root "section" .section "key" "listen") }}, protocol: TCP}
        {{- end }}
        - {name: metrics, containerPort: {{ $admin }}, protocol: TCP}
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $root.Values.probes.startup | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        {{- toYaml $root.Values.probes.readiness | nindent 8 }}
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $root.Values.probes.liveness | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/receipts/config, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if eq .component "all-in-one" }}
        - {name: data, mountPath: {{ (include "receipts.config" $root | fromYaml).data.dir | quote }}}
        {{- end }}
        {{- if and $root.Values.gateway.acknowledgementKeysSecret (has .component (list "gateway" "all-in-one")) }}
        - {name: acknowledgement, mountPath: /etc/receipts/acknowledgement, readOnly: true}
        {{- end }}
        {{- include "receipts.mountsIn" . | nindent 8 }}
    {{- with $values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "receipts.fullname" $root }}
        items:
          - {key: {{ .component }}.toml, path: receipts.toml}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- if eq .component "all-in-one" }}
    {{- with $values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ . }}}
    {{- end }}
    {{- end }}
    {{- with and (has .component (list "gateway" "all-in-one")) $root.Values.gateway.acknowledgementKeysSecret }}
    - name: acknowledgement
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- include "receipts.mountVolumes" . | nindent 4 }}
{{- end -}}

{{/* What every pod has: {root, component, values}. */}}
{{- define "receipts.podSpec" -}}
{{- $root := .root -}}
serviceAccountName: {{ include "receipts.serviceAccount" . }}
automountServiceAccountToken: false
# Variables of neighbouring Services would read like ours.
enableServiceLinks: false
{{- with concat $root.Values.global.imagePullSecrets $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container has: {root, component, args, values, secrets, secretName}. */}}
{{- define "receipts.container" -}}
name: {{ .component }}
image: {{ include "receipts.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: {{ toJson .args }}
env:
  {{- include "receipts.env" . | nindent 2 }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
{{- end -}}

{{/* The values of the secrets that a component reads, for the checksum: {root, secrets}. */}}
{{- define "receipts.secretsOf" -}}
{{- $data := include "receipts.secretData" .root | fromYaml -}}
{{- $variables := include "receipts.secrets" .root | fromYaml -}}
{{- range .secrets }}{{ . }}={{ index $data (index $variables .) }};{{- end -}}
{{- end -}}

{{/* {root, values} */}}
{{- define "receipts.mountsIn" -}}
{{- range .root.Values.mounts }}
- {name: {{ printf "mount-%s" .name }}, mountPath: {{ .path | quote }}, readOnly: true}
{{- end }}
{{- with .values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* {root, values} */}}
{{- define "receipts.mountVolumes" -}}
{{- range .root.Values.mounts }}
- name: {{ printf "mount-%s" .name }}
  {{- if .secret }}
  secret:
    secretName: {{ .secret }}
  {{- else }}
  configMap:
    name: {{ .configMap }}
  {{- end }}
    {{- with .keys }}
    items:
      {{- range . }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
    {{- end }}
{{- end }}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
