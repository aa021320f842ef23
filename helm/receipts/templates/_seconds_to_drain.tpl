{{/*
Seconds that the verifiers need for what waits: records not given to them yet over records committed a second. While something waits
they work as fast as they can, so their rate is what they can do; with nothing waiting it is 0 over something.
*/}}
{{- define "receipts.secondsToDrain" -}}
sum(receipts_kafka_lag_records{log="receipts", {{- . -}} }) / clamp_min(sum(rate(receipts_verifier_records_total{ {{- . -}} }[2m])), 1)
{{- end -}}
{{/*
Seconds that the writers are behind the verifiers: records of `verdicts` that wait over records appended to it a second.
*/}}
{{- define "receipts.secondsBehind" -}}
sum(receipts_kafka_lag_records{log="verdicts", {{- . -}} }) / clamp_min(sum(rate(receipts_log_appends_total{log="verdicts", {{- . -}} }[2m])), 1)
{{- end -}}
