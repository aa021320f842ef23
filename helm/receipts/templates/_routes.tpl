{{/*
Addresses at the host of everything, as YAML: {service: [[match, path], ...]}, match being Exact or Prefix, of the services that run. One pod serves all by
itself. The services have those of PREFIXES in publisher-api/src/lib.rs and analytics-api/src/lib.rs; everything else is the gateway's.
*/}}
{{- define "receipts.routes" -}}
{{- $running := include "receipts.running" . | fromYaml -}}
{{- if eq .Values.mode "allInOne" }}
gateway: [[Prefix, /]]
{{- else }}
{{- if hasKey $running "gateway" }}
gateway:
  - [Exact, /api/v1/receipts]
  - [Exact, /api/v1/receipts/batch]
  - [Exact, /api/v1/receipts/explain]
  - [Prefix, /]
{{- end }}
{{- if hasKey $running "analytics-api" }}
analytics-api:
  # Sends browsers on to the dashboard.
  - [Exact, /]
  - [Prefix, /api/v1/analytics]
  - [Prefix, /api/v1/client]
  - [Prefix, /api/v1/receipts]
  - [Prefix, /dashboard]
  - [Prefix, /docs/analytics]
  - [Prefix, /openapi/analytics.json]
{{- end }}
{{- if hasKey $running "publisher-api" }}
publisher-api:
  - [Prefix, /api/v1/auth]
  - [Prefix, /api/v1/entries]
  - [Prefix, /api/v1/operators]
  - [Prefix, /api/v1/publisher]
  - [Prefix, /api/v1/user]
  - [Prefix, /api/v1/verification]
  - [Prefix, /docs/publisher]
  - [Prefix, /openapi/publisher.json]
{{- end }}
{{- end }}
{{- end -}}
