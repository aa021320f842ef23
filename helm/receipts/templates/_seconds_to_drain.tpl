{{/*
Seconds that the verifiers need for what waits: records not given to them yet over records committed a second. While something waits
they work as fast as they can, so their rate is what they can do; with nothing waiting it is 0 over something. More verifiers can't help
while all of them wait for an engine, or none commits: there is no value then, and the autoscaler keeps what it has.
*/}}
{{- define "receipts.secondsToDrain" -}}
(sum(receipts_kafka_lag_records{log="receipts", {{- . -}} }) / clamp_min(sum(rate(receipts_verifier_records_total{ {{- . -}} }[2m])) > 0, 1) or sum(receipts_kafka_lag_records{log="receipts", {{- . -}} }) == 0) unless on () max(receipts_component_ready{component="verifier", {{- . -}} }) == 0
{{- end -}}
{{/*
Seconds that the writers are behind the verifiers: records of `verdicts` that wait over records appended to it a second. No value while
none stores anything: ClickHouse is away, and more writers can't help.
*/}}
{{- define "receipts.secondsBehind" -}}
(sum(receipts_kafka_lag_records{log="verdicts", {{- . -}} }) / clamp_min(sum(rate(receipts_log_appends_total{log="verdicts", {{- . -}} }[2m])), 1) and on () sum(rate(receipts_writer_receipts_total{ {{- . -}} }[2m])) > 0) or sum(receipts_kafka_lag_records{log="verdicts", {{- . -}} }) == 0
{{- end -}}
