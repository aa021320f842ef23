{{/*
The services: the name of their values (at), the sections of the configuration and the secrets that they read, where they listen, and the
flows that they need. What a service doesn't read isn't given to it, and doesn't restart it when it changes.
*/}}
{{- define "receipts.components" -}}
{{- $policy := (.Values.config).policy | default dict -}}
{{- $registered := eq ($policy.clients | default "open") "registered" -}}
gateway:
  at: gateway
  section: gateway
  {{- /* Only registered client keys are looked up, so only then it needs the account store. */}}
  {{- if $registered }}
  sections: [accounts, data, gateway, kafka, limits, log, policy, telemetry]
  secrets: [RECEIPTS_KAFKA_SASL_PASSWORD, RECEIPTS_ACCOUNTS_URL]
  {{- else }}
  sections: [data, gateway, kafka, limits, log, telemetry]
  secrets: [RECEIPTS_KAFKA_SASL_PASSWORD]
  {{- end }}
  listens: true
  from: gatewayFrom
  to: [kafka{{ if $registered }}, postgresql{{ end }}]
verifier:
  at: verifier
  section: verifier
  sections: [accounts, data, kafka, limits, log, policy, telemetry, verdicts, verifier]
  secrets: [RECEIPTS_KAFKA_SASL_PASSWORD, RECEIPTS_ACCOUNTS_URL]
  listens: false
  to: [kafka, postgresql]
writer:
  at: writer
  section: writer
  sections: [data, kafka, telemetry, verdicts, warehouse, writer]
  secrets: [RECEIPTS_KAFKA_SASL_PASSWORD, RECEIPTS_WAREHOUSE_PASSWORD]
  listens: false
  to: [kafka, clickhouse]
analytics-api:
  at: analyticsApi
  section: analytics
  sections: [accounts, analytics, data, quotas, redis, telemetry, warehouse]
  secrets: [RECEIPTS_WAREHOUSE_PASSWORD, RECEIPTS_ACCOUNTS_URL, RECEIPTS_REDIS_PASSWORD]
  listens: true
  from: analyticsFrom
  to: [clickhouse, postgresql, redis]
publisher-api:
  at: publisherApi
  section: publisher
  sections: [accounts, auth, data, outbound, publisher, quotas, redis, smtp, telemetry, warehouse]
  secrets: [RECEIPTS_WAREHOUSE_PASSWORD, RECEIPTS_ACCOUNTS_URL, RECEIPTS_REDIS_PASSWORD, RECEIPTS_SMTP_PASSWORD, RECEIPTS_AUTH_HS256_SECRET]
  listens: true
  from: publisherFrom
  to: [clickhouse, postgresql, redis, smtp, outbound]
{{- end -}}

{{/* The components that run, by name. */}}
{{- define "receipts.running" -}}
{{- $running := dict -}}
{{- if eq .Values.mode "services" -}}
{{- range $name, $component := include "receipts.components" . | fromYaml -}}
{{- if (index $.Values $component.at).enabled -}}
{{- $_ := set $running $name $component -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $running -}}
{{- end -}}

{{/* Variables of secrets: their values' names. */}}
{{- define "receipts.secrets" -}}
RECEIPTS_ACCOUNTS_URL: accountsUrl
RECEIPTS_KAFKA_SASL_PASSWORD: kafkaSaslPassword
RECEIPTS_WAREHOUSE_PASSWORD: warehousePassword
RECEIPTS_REDIS_PASSWORD: redisPassword
RECEIPTS_SMTP_PASSWORD: smtpPassword
RECEIPTS_AUTH_HS256_SECRET: authHs256Secret
{{- end -}}

{{- define "receipts.secretName" -}}
{{- .Values.secrets.existingSecret | default (include "receipts.fullname" .) -}}
{{- end -}}

{{/* What the chart's own Secret holds; empty with existingSecret. */}}
{{- define "receipts.secretData" -}}
{{- $data := dict -}}
{{- range $variable, $value := include "receipts.secrets" . | fromYaml -}}
{{- with index $.Values.secrets $value -}}
{{- if $.Values.secrets.existingSecret -}}
{{- fail (printf "secrets.existingSecret and secrets.%s: give one of the two" $value) -}}
{{- end -}}
{{- $_ := set $data $variable (. | toString | b64enc) -}}
{{- end -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{/*
The variables of a container: {root, secrets, secretName, values}. Those that the images set are set here again, from the configuration:
a variable is stronger than the file.
*/}}
{{- define "receipts.env" -}}
{{- $given := include "receipts.secretData" .root | fromYaml -}}
{{- $config := include "receipts.config" .root | fromYaml -}}
{{- $services := eq .root.Values.mode "services" -}}
{{- range .secrets }}
{{- if or $.root.Values.secrets.existingSecret (hasKey $given .) }}
- name: {{ . }}
  valueFrom:
    secretKeyRef:
      name: {{ $.secretName | default (include "receipts.secretName" $.root) }}
      key: {{ . }}
      {{- if and $.root.Values.secrets.existingSecret (not (and $services (eq . "RECEIPTS_ACCOUNTS_URL"))) }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
- name: RECEIPTS_CONFIG
  value: /etc/receipts/config/receipts.toml
- name: RECEIPTS_TELEMETRY_LOG_FORMAT
  value: {{ $config.telemetry.log_format | quote }}
- name: RECEIPTS_DATA_DIR
  value: {{ $config.data.dir | quote }}
{{- if not $services }}
- name: RECEIPTS_GATEWAY_LISTEN
  value: {{ $config.gateway.listen | quote }}
- name: RECEIPTS_TELEMETRY_METRICS_LISTEN
  value: {{ $config.telemetry.metrics_listen | quote }}
{{- with ($config.warehouse).library }}
- name: RECEIPTS_WAREHOUSE_LIBRARY
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
