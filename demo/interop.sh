#!/usr/bin/env bash
# Both directions against OpenSSL and Node: what they sign, `receipts` verifies; what `receipts`
# signs, they verify. Builds the command in PROFILE (demo), or takes the one that RECEIPTS_DEMO_BIN
# names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./prepare.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

node sign.mjs "$work" news.example
./sign-openssl.sh "$work" news.example
RECEIPTS_DEMO_BIN=$bin RECEIPTS_DEMO_OUTBOX=$work node --test interop.test.mjs
