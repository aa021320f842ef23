#!/usr/bin/env bash
# Builds and signs requests with the openssl command and jq alone: sign-openssl.sh OUTBOX PUBLISHER.
# Writes bodies, and OUTBOX/openssl.ndjson in the form that sign.mjs describes.
set -euo pipefail

outbox=$1 publisher=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$outbox"
manifest=$outbox/openssl.ndjson
: >"$manifest"

# jq sorts members by code point and prints strings minimally escaped: for ASCII without numbers
# that is RFC 8785.
canonical() { jq -cSj 'del(.signature, .signatureAlgorithm)'; }

uuid() { cat /proc/sys/kernel/random/uuid; }

new_key() { # algorithm file
  case $1 in
    Ed25519) openssl genpkey -algorithm ed25519 -out "$2" ;;
    RSA-2048) openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$2" 2>/dev/null ;;
    ECDSA-P256) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$2" ;;
  esac
}

# A DER signature as r and s of 32 bytes each (IEEE P1363).
der_to_raw() {
  openssl asn1parse -inform DER | sed -n 's/.*INTEGER *://p' | while read -r number; do
    # %b makes bytes of \xHH, NUL included.
    printf '%b' "$(printf '%64s' "$number" | tr ' ' 0 | sed 's/../\\x&/g')"
  done
}

sign_file() { # algorithm key file -> base64
  case $1 in
    Ed25519) openssl pkeyutl -sign -rawin -inkey "$2" -in "$3" ;;
    RSA-2048 | ECDSA-P256) openssl dgst -sha256 -sign "$2" "$3" ;;
    ECDSA-P256-raw) openssl dgst -sha256 -sign "$2" "$3" | der_to_raw ;;
  esac | base64 -w 0
}

# Standard input with its signature: canonical bytes to a file, because Ed25519 signs a file of
# known length.
signed() { # algorithm key
  local document signature
  document=$(cat)
  canonical <<<"$document" >"$work/canonical"
  signature=$(sign_file "$1" "$2" "$work/canonical")
  jq -c --arg s "$signature" --arg a "${1%-raw}" '. + {signature: $s, signatureAlgorithm: $a}' <<<"$document"
}

count=0
receipt() { # client purpose hours_ago -> an unsigned receipt
  jq -nc --argjson client "$1" --arg purpose "$2" --arg id "$(uuid)" --arg entry "$entry" --arg publisher "$publisher" \
    --arg at "$(date -u -d "-$3 hours -3 minutes" +%Y-%m-%dT%H:%M:%S.250Z)" \
    --arg hash "sha256:$(printf %s "$publisher" | sha256sum | cut -d' ' -f1)" '{
      version: "1.0.0", receiptId: $id, timestamp: $at,
      content: {entryId: $entry, url: "https://\($publisher)/openssl", contentHash: $hash, publisher: $publisher},
      client: $client, usage: {purpose: $purpose, context: "signed by openssl", note: "an unknown member"}}'
}

request() { # name path body_file algorithm key outcome reason, outcomes of all receipts being the same
  count=$((count + 1))
  local file hash hashes signature
  file=$(printf 'openssl-%03d-%s.json' "$count" "$1")
  cp "$3" "$outbox/$file"
  signature=$(sign_file "$4" "$5" "$3")
  # The payload hashes, of each receipt in the body.
  hashes=$(jq -c '.receipts // [.] | .[]' "$3" | while read -r one; do
    hash=$(canonical <<<"$one" | sha256sum | cut -d' ' -f1)
    printf '"%s"\n' "$hash"
  done | jq -sc .)
  jq -c --arg name "openssl $1" --arg file "$file" --arg path "$2" --arg signature "$signature" \
    --arg outcome "$6" --arg reason "$7" --argjson hashes "$hashes" '
    (.receipts // [.]) as $all
    | {name: $name, file: $file, path: $path, signature: $signature, contentType: "application/json", encoding: null,
       status: 202, code: null, pointer: null,
       receipts: [range($all | length) | $all[.] as $r
         | {receiptId: $r.receiptId, payloadHash: $hashes[.], outcome: $outcome,
            reason: (if $reason == "" then null else $reason end), timestamp: $r.timestamp,
            publisher: $r.content.publisher, entryId: $r.content.entryId, clientId: $r.client.id,
            purpose: $r.usage.purpose}]}' "$3" >>"$manifest"
}

entry=$(uuid)
purposes=(training inference research)
for algorithm in Ed25519 RSA-2048 ECDSA-P256 ECDSA-P256-raw; do
  key=$work/$algorithm.pem
  new_key "${algorithm%-raw}" "$key"
  client=$(jq -nc --arg id "$(uuid)" --arg name "OpenSSL $algorithm" --arg pem "$(openssl pkey -in "$key" -pubout)" \
    '{id: $id, name: $name, version: "3", organization: "Shell & Sons", publicKey: ($pem + "\n")}')

  for n in 0 1 2; do
    receipt "$client" "${purposes[n]}" $((n * 9)) | signed "$algorithm" "$key" >"$work/one"
    request "$algorithm-single" /api/v1/receipts "$work/one" "$algorithm" "$key" verified ""
  done
  request "$algorithm-retry" /api/v1/receipts "$work/one" "$algorithm" "$key" duplicate ""

  for n in 0 1 2 3; do
    receipt "$client" "${purposes[n % 3]}" $((n * 7)) | signed "$algorithm" "$key"
  done | jq -sc --arg id "$(uuid)" '{version: "1.0.0", batchId: $id, receipts: .}' | signed "$algorithm" "$key" >"$work/batch"
  request "$algorithm-batch" /api/v1/receipts/batch "$work/batch" "$algorithm" "$key" verified ""

  receipt "$client" training 1 | signed "$algorithm" "$key" | jq -c '.usage.purpose = "research"' >"$work/one"
  request "$algorithm-tampered" /api/v1/receipts "$work/one" "$algorithm" "$key" rejected bad_signature
done
echo "openssl: $(jq -s 'map(.receipts | length) | add' "$manifest") receipts in $count requests"
