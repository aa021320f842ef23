#!/usr/bin/env bash
# Sends what is in an outbox with curl, in order: submit.sh OUTBOX GATEWAY. Writes
# OUTBOX/answers.ndjson.
set -euo pipefail
outbox=$1 gateway=$2
answers=$outbox/answers.ndjson
: >"$answers"
body=$(mktemp) sent=$(mktemp)
trap 'rm -f "$body" "$sent"' EXIT

while IFS=$'\x1f' read -r file path signature type encoding; do
  headers=(-H "Content-Type: $type" -H 'Expect:')
  [[ -z $signature ]] || headers+=(-H "X-Service-Signature: $signature")
  case $encoding in
    gzip) gzip -c "$outbox/$file" >"$sent" && headers+=(-H 'Content-Encoding: gzip') ;;
    zstd) zstd -q -c "$outbox/$file" >"$sent" && headers+=(-H 'Content-Encoding: zstd') ;;
    *) cp "$outbox/$file" "$sent" ;;
  esac
  status=$(curl -sS --max-time 20 --retry 5 --retry-connrefused -o "$body" -w '%{http_code}' \
    "${headers[@]}" --data-binary "@$sent" "$gateway$path")
  jq -nc --arg file "$file" --argjson status "$status" --rawfile body "$body" \
    '{file: $file, status: $status, answer: ($body | try fromjson catch $body)}' >>"$answers"
done < <(cat "$outbox"/{node,openssl}.ndjson \
  | jq -r '[.file, .path, (.signature // ""), .contentType, (.encoding // "")] | join("\u001f")')
