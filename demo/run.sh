#!/usr/bin/env bash
# The demo behind `make demo`: starts `receipts up` on a fresh data directory, sends receipts that
# OpenSSL and Node built and signed, shows what a publisher sees, and checks every number against
# what was sent.
#
#   DEMO_EXIT=1          stop there, with a status; otherwise everything keeps running until Ctrl-C
#   PROFILE=dev          use the debug build (default: the profile `demo`)
#   RECEIPTS_DEMO_DATA   where the data goes (must be empty or absent; retained afterwards); else a
#                        temporary directory
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../scripts/check-platform
source ./prepare.sh

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' faint=$'\e[2m' red=$'\e[1;31m' plain=$'\e[0m'; else bold='' faint='' red='' plain=''; fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
fail() { printf '%sdemo failed:%s %s\n' "$red" "$plain" "$*" >&2; exit 1; }

publisher=news.example
work=$(mktemp -d)
data=${RECEIPTS_DEMO_DATA:-$work/data}
[[ -z $(ls -A "$data" 2>/dev/null) ]] || fail "$data is not empty"
mkdir -p "$data"
data=$(cd "$data" && pwd)
log=$work/receipts.log
up=''

stop() {
  local status=$?
  trap - EXIT
  if [[ -n $up ]] && kill -0 "$up" 2>/dev/null; then
    kill -TERM "$up"
    wait "$up" || { echo "receipts up ended with status $? while draining:" >&2; tail -n 20 "$log" >&2; status=1; }
  fi
  if [[ $status != 0 && -s $log ]]; then
    echo "the end of the service's log:" >&2
    tail -n 20 "$log" >&2
  fi
  rm -rf "$work"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT TERM

# The usual port if it is free, any other if not.
port() { if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then echo 0; else echo "$1"; fi; }

step '1. One process at one address: gateway, verifier, both APIs, the dashboard, and ClickHouse inside'
# In a session of its own, so that Ctrl-C reaches this script alone, which then lets it drain.
setsid "$bin" up --data "$data" --listen "127.0.0.1:$(port 8080)" --metrics-listen "127.0.0.1:$(port 9090)" \
  >"$work/up.out" 2>"$log" &
up=$!
for _ in $(seq 600); do
  kill -0 "$up" 2>/dev/null || { up=''; cat "$work/up.out"; fail 'receipts up ended at its start'; }
  # The file appears when everything listens.
  if [[ -s $data/addresses.json ]]; then
    gateway=$(jq -r .gateway "$data/addresses.json") analytics=$(jq -r .analytics "$data/addresses.json")
    if curl -fsS -o /dev/null "$gateway/readyz" 2>/dev/null && curl -fsS -o /dev/null "$analytics/readyz" 2>/dev/null; then
      ready=1
      break
    fi
  fi
  sleep 0.1
done
[[ -n ${ready:-} ]] || fail 'receipts up was not ready within a minute'
cat "$work/up.out"

step '2. A publisher gets an API key'
key=$("$bin" keys create --data "$data" --domain "$publisher" --json | jq -er .apiKey)
"$bin" accounts set-tier --data "$data" "$publisher" enterprise
echo "$publisher  ${key:0:12}…"

step '3. AI operators build and sign receipts, outside this code base'
outbox=$work/outbox
node sign.mjs "$outbox" "$publisher"
./sign-openssl.sh "$outbox" "$publisher"

step '4. curl sends them'
./submit.sh "$outbox" "$gateway"
echo "$(wc -l <"$outbox/answers.ndjson") requests answered"

step '5. What the publisher sees'
DEMO_BIN=$bin DEMO_DATA=$data DEMO_OUTBOX=$outbox DEMO_ANALYTICS=$analytics DEMO_KEY=$key DEMO_PUBLISHER=$publisher \
  node report.mjs

if [[ ${DEMO_EXIT:-} == 1 ]]; then
  exit 0
fi

step 'It keeps running: go on from here, Ctrl-C ends it'
cat <<HELP
  export KEY=$key
  a browser on $analytics/dashboard takes the same key; $gateway/ links everything else
  curl -s -H "Authorization: Bearer \$KEY" '$analytics/api/v1/analytics/dashboard' | jq
  curl -s -H "Authorization: Bearer \$KEY" '$analytics/api/v1/analytics/timeseries?interval=hour&groupBy=purpose' | jq
  $bin audit --data $data
  curl -s $(jq -r .metrics "$data/addresses.json")/metrics | grep ^receipts_
${faint}  data: $data   log: $log$plain
HELP
trap 'echo; echo "draining"; exit 0' INT TERM
wait "$up" || fail 'receipts up ended'
up=''
