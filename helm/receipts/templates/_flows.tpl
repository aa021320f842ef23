{{/* The NetworkPolicy of a component: {root, component, flows, annotations}, flows being {listens, from, to, command}. */}}
{{- define "receipts.networkPolicy" -}}
{{- $root := .root -}}
{{- $name := .component -}}
{{- $policy := $root.Values.networkPolicy -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "receipts.metadata" (dict "root" $root "component" $name "name" (printf "%s-%s" (include "receipts.fullname" $root) $name) "annotations" .annotations) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "receipts.selector" (dict "root" $root "component" $name) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- $from := list }}
  {{- if eq $name "all-in-one" }}
  {{- range $section := list "gateway" "analytics" "publisher" }}
  {{- $port := include "receipts.allInOnePort" (dict "root" $root "section" $section) }}
  {{- $from = append $from (dict "port" $port "peers" (printf "%sFrom" $section)) }}
  {{- end }}
  {{- else if .flows.listens }}
  {{- $from = list (dict "port" "http" "peers" .flows.from) }}
  {{- end }}
  ingress:
    {{- range $from }}
    - ports: [{port: {{ .port }}, protocol: TCP}]
      {{- with index $policy .peers }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- if and $policy.metricsFrom (not .flows.command) }}
    - ports: [{port: metrics, protocol: TCP}]
      from:
        {{- toYaml $policy.metricsFrom | nindent 8 }}
    {{- end }}
    {{- if not (or $from (and $policy.metricsFrom (not .flows.command))) }} []{{ end }}
  egress:
    {{- $dns := $policy.dns }}
    - ports:
        {{- range $dns.ports }}
        - {port: {{ . }}, protocol: UDP}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      {{- with $dns.to }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- range $engine := .flows.to }}
    {{- if eq $engine "outbound" }}
    - ports:
        {{- range $policy.outbound.ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      to:
        - ipBlock:
            cidr: 0.0.0.0/0
            except: {{ toJson $policy.outbound.except }}
        - ipBlock:
            cidr: "::/0"
            except: {{ toJson $policy.outbound.exceptIPv6 }}
    {{- else }}
    {{- $flow := index $policy $engine }}
    - ports:
        {{- range $flow.ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      {{- with $flow.to }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- end }}
{{- end -}}
