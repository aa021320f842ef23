{{/*
Matchers of this release's series. The label `release` is the chart's ServiceMonitor's: without it, the namespace is all there is.
*/}}
{{- define "receipts.matchers" -}}
{{- printf "namespace=%q" .Release.Namespace -}}
{{- if .Values.monitoring.serviceMonitor.enabled -}}
{{- printf ",release=%q" .Release.Name -}}
{{- end -}}
{{- end -}}
{{/*
Rules that select only this release: {root, rules}. A name is followed by its selector, or by none.
*/}}
{{- define "receipts.scopedRules" -}}
{{- $matchers := include "receipts.matchers" .root -}}
{{- $name := "\\b(receipts[_:][a-z0-9_:]+|up)" -}}
{{- range $group := .rules.groups -}}
{{- range $rule := $group.rules -}}
{{- $query := regexReplaceAll (printf "%s\\{" $name) $rule.expr (printf "${1}{%s, " $matchers) -}}
{{- $query = regexReplaceAll (printf "%s([^a-z0-9_:{]|$)" $name) $query (printf "${1}{%s}${2}" $matchers) -}}
{{- $query = regexReplaceAll "\\b(kube_[a-z_]+)\\{" $query (printf "${1}{namespace=%q, " $.root.Release.Namespace) -}}
{{- $query = regexReplaceAll "\\b(kube_[a-z_]+)([^a-z_{]|$)" $query (printf "${1}{namespace=%q}${2}" $.root.Release.Namespace) -}}
{{- $_ := set $rule "expr" ($query | replace ".*receipts.*" (include "receipts.fullname" $.root)) -}}
{{- end -}}
{{- end -}}
{{- toYaml .rules -}}
{{- end -}}
