{{/* The configuration with what the chart sets, as YAML. */}}
{{- define "receipts.config" -}}
{{- $defaults := dict
  "telemetry" (dict "log_format" "json" "metrics_listen" "0.0.0.0:9090")
  "data" (dict "dir" "/var/lib/receipts")
  "gateway" (dict "listen" "0.0.0.0:8080" "drain_delay_ms" 10000)
  "analytics" (dict "listen" (ternary "0.0.0.0:8080" "0.0.0.0:8081" (eq .Values.mode "allInOne")) "drain_delay_ms" 10000)
  "publisher" (dict "listen" (ternary "0.0.0.0:8080" "0.0.0.0:8082" (eq .Values.mode "allInOne")) "drain_delay_ms" 10000)
-}}
{{- if .Values.gateway.acknowledgementKeysSecret -}}
{{- $_ := set $defaults.gateway "acknowledgement_keys" (list "/etc/receipts/acknowledgement/acknowledgement.key") -}}
{{- end -}}
{{- $config := mergeOverwrite $defaults (deepCopy .Values.config) -}}
{{- if eq .Values.mode "services" -}}
{{- $_ := required "config.kafka.brokers: the services need Kafka (mode: allInOne does without)" (($config.kafka).brokers) -}}
{{- $_ := required "config.warehouse.url: the services need ClickHouse (mode: allInOne does without)" (($config.warehouse).url) -}}
{{- if and .Values.gateway.enabled (not $config.gateway.acknowledgement_keys) -}}
{{- fail "gateway.acknowledgementKeysSecret: name a Secret with acknowledgement.key, which `receipts keygen --algorithm Ed25519` makes" -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Sections as TOML: {root, sections}. JSON's texts, numbers and lists of those are TOML's as well. */}}
{{- define "receipts.toml" -}}
{{- $config := include "receipts.config" .root | fromYaml -}}
{{- range $section := .sections }}
{{- with index $config $section }}
[{{ $section }}]
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{ end }}
{{- end }}
{{- end -}}

{{- define "receipts.allSections" -}}
[accounts, analytics, auth, data, gateway, kafka, limits, log, outbound, policy, publisher, quotas, redis, smtp, telemetry, verdicts, verifier, warehouse, writer]
{{- end -}}

{{/* The port of an address as "0.0.0.0:8080" and "[::]:8080": {root, section, key}. */}}
{{- define "receipts.port" -}}
{{- $config := include "receipts.config" .root | fromYaml -}}
{{- index (index $config .section) .key | splitList ":" | last -}}
{{- end -}}

{{/* The name of a section's port in the all-in-one, whose services share the gateway's unless they have an address of their own: {root, section}. */}}
{{- define "receipts.allInOnePort" -}}
{{- $gateway := include "receipts.port" (dict "root" .root "section" "gateway" "key" "listen") -}}
{{- $own := include "receipts.port" (dict "root" .root "section" .section "key" "listen") -}}
{{- ternary "gateway" .section (eq $own $gateway) -}}
{{- end -}}

{{/* A setting in milliseconds, or the program's default, as whole seconds: {root, section, key, default}. */}}
{{- define "receipts.seconds" -}}
{{- $config := include "receipts.config" .root | fromYaml -}}
{{- $section := index $config .section | default dict -}}
{{- $ms := .default -}}
{{- if hasKey $section .key }}{{- $ms = index $section .key -}}{{- end -}}
{{- divf (float64 $ms) 1000 | ceil | int -}}
{{- end -}}

{{/*
Seconds from SIGTERM to the end of the process at the worst: the service's delay (drain_delay_ms) and drain (drain_ms_max), then closing. Closing the gateway's
log waits for the broker's last answers (kafka.delivery_wait_ms_max and 2 s); the verifier ends its transaction
(kafka.transaction_wait_ms_max and 2 s); verifier and writer leave their group with one request (kafka.request_wait_ms_max).
{root, component}
*/}}
{{- define "receipts.drainSeconds" -}}
{{- $root := .root -}}
{{- $deliver := add 2 (include "receipts.seconds" (dict "root" $root "section" "kafka" "key" "delivery_wait_ms_max" "default" 3500)) -}}
{{- $transaction := add 2 (include "receipts.seconds" (dict "root" $root "section" "kafka" "key" "transaction_wait_ms_max" "default" 10000)) -}}
{{- $request := include "receipts.seconds" (dict "root" $root "section" "kafka" "key" "request_wait_ms_max" "default" 10000) -}}
{{- $delay := dict -}}
{{- range $section := list "gateway" "analytics" "publisher" }}
{{- $_ := set $delay $section (include "receipts.seconds" (dict "root" $root "section" $section "key" "drain_delay_ms" "default" 0)) -}}
{{- end -}}
{{- $gateway := include "receipts.seconds" (dict "root" $root "section" "gateway" "key" "drain_ms_max" "default" 10000) -}}
{{- $verifier := include "receipts.seconds" (dict "root" $root "section" "verifier" "key" "drain_ms_max" "default" 20000) -}}
{{- $writer := include "receipts.seconds" (dict "root" $root "section" "writer" "key" "drain_ms_max" "default" 20000) -}}
{{- $analytics := include "receipts.seconds" (dict "root" $root "section" "analytics" "key" "drain_ms_max" "default" 10000) -}}
{{- $publisher := include "receipts.seconds" (dict "root" $root "section" "publisher" "key" "drain_ms_max" "default" 10000) -}}
{{- if eq .component "gateway" -}}
{{- add $delay.gateway $gateway $deliver -}}
{{- else if eq .component "verifier" -}}
{{- add $verifier $transaction $request -}}
{{- else if eq .component "writer" -}}
{{- add $writer $request -}}
{{- else if eq .component "analytics-api" -}}
{{- add $delay.analytics $analytics -}}
{{- else if eq .component "publisher-api" -}}
{{- add $delay.publisher $publisher -}}
{{- else -}}
{{- /* One after the other; verifier and writer first catch up and then finish; the engine closes its tables. */ -}}
{{- add $delay.gateway $gateway $publisher $verifier $verifier $writer $writer $analytics 10 -}}
{{- end -}}
{{- end -}}

{{/* {root, component, values} */}}
{{- define "receipts.grace" -}}
{{- $needed := include "receipts.drainSeconds" . | int -}}
{{- $given := .values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $needed .root.Values.shutdownMarginSeconds -}}
{{- else if lt (int $given) (int $needed) -}}
{{- fail (printf "the %s's terminationGracePeriodSeconds is %d: its delay and drain may take %d" .component (int $given) (int $needed)) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* Replicas that have something to do: a verifier for each partition, a writer for each shard and one that stands by: {root, component}. */}}
{{- define "receipts.replicasMax" -}}
{{- $kafka := (include "receipts.config" .root | fromYaml).kafka | default dict -}}
{{- if eq .component "verifier" -}}
{{- $kafka.partitions | default 12 | int -}}
{{- else if eq .component "writer" -}}
{{- $kafka.verdicts_partitions | default 1 | int | add 1 -}}
{{- else -}}
1000
{{- end -}}
{{- end -}}
