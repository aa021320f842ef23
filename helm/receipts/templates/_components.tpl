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
  {{- /* Only registered client keys are resolved, so only then it needs the account store. */}}
  {{- if $registered }}
  sections: [accounts, data, gateway, kafka, limits, log, policy, telemetry]
  secrets: [kafkaSaslUsername, kafkaSaslPassword, accountsUrl]
  {{- else }}
  sections: [data, gateway, kafka, limits, log, telemetry]
  secrets: [kafkaSaslUsername, kafkaSaslPassword]
  {{- end }}
  listens: true
  from: gatewayFrom
  to: [kafka{{ if $registered }}, postgresql{{ end }}]
verifier:
  at: verifier
  section: verifier
  sections: [accounts, data, kafka, limits, log, policy, telemetry, verdicts, verifier]
  secrets: [kafkaSaslUsername, kafkaSaslPassword, accountsUrl]
  listens: false
  to: [kafka, postgresql]
writer:
  at: writer
  section: writer
  sections: [data, kafka, telemetry, verdicts, warehouse, writer]
  secrets: [kafkaSaslUsername, kafkaSaslPassword, warehouseUser, warehousePassword]
  listens: false
  to: [kafka, clickhouse]
analytics-api:
  at: analyticsApi
  section: analytics
  sections: [accounts, analytics, data, quotas, redis, telemetry, warehouse]
  secrets: [warehouseUser, warehousePassword, accountsUrl, redisPassword]
  listens: true
  from: analyticsFrom
  to: [clickhouse, postgresql, redis]
publisher-api:
  at: publisherApi
  section: publisher
  sections: [accounts, auth, data, outbound, publisher, quotas, redis, smtp, telemetry, warehouse]
  secrets: [warehouseUser, warehousePassword, accountsUrl, redisPassword, smtpPassword, authHs256Secret]
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

{{/* Secrets' names in the values: their variables. */}}
{{- define "receipts.secrets" -}}
accountsUrl: RECEIPTS_ACCOUNTS_URL
kafkaSaslUsername: RECEIPTS_KAFKA_SASL_USERNAME
kafkaSaslPassword: RECEIPTS_KAFKA_SASL_PASSWORD
warehouseUser: RECEIPTS_WAREHOUSE_USER
warehousePassword: RECEIPTS_WAREHOUSE_PASSWORD
redisPassword: RECEIPTS_REDIS_PASSWORD
smtpPassword: RECEIPTS_SMTP_PASSWORD
authHs256Secret: RECEIPTS_AUTH_HS256_SECRET
{{- end -}}

{{/* What the chart's own Secret holds: those that are given as texts, but for names of users. */}}
{{- define "receipts.secretData" -}}
{{- $data := dict -}}
{{- range $name, $variable := include "receipts.secrets" . | fromYaml -}}
{{- $value := index $.Values.secrets $name -}}
{{- if and $value (kindIs "string" $value) (not (contains "User" $name)) -}}
{{- $_ := set $data $variable (b64enc $value) -}}
{{- end -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{/*
The variables of a container: {root, secrets, secretName, values}. Those that the images set are set here again, from the configuration:
a variable is stronger than the file.
*/}}
{{- define "receipts.env" -}}
{{- $variables := include "receipts.secrets" .root | fromYaml -}}
{{- $config := include "receipts.config" .root | fromYaml -}}
{{- $services := eq .root.Values.mode "services" -}}
{{- range .secrets }}
{{- $given := index ($.values.secrets | default dict) . | default (index $.root.Values.secrets .) }}
{{- if and $services (eq . "accountsUrl") (not $given) }}
{{- fail "secrets.accountsUrl: the services need PostgreSQL (mode: allInOne does without)" }}
{{- end }}
{{- if $given }}
- name: {{ index $variables . }}
  {{- if and (kindIs "string" $given) (contains "User" .) }}
  value: {{ $given | quote }}
  {{- else }}
  valueFrom:
    secretKeyRef:
      {{- if kindIs "map" $given }}
      name: {{ $given.name }}
      key: {{ $given.key }}
      {{- else }}
      name: {{ $.secretName | default (include "receipts.fullname" $.root) }}
      key: {{ index $variables . }}
      {{- end }}
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
