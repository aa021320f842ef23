# Sourced by run.sh and interop.sh, in their folder: sets `bin` to the built command, and installs
# the npm package.
if [[ -n ${RECEIPTS_DEMO_BIN:-} ]]; then
  bin=$RECEIPTS_DEMO_BIN
else
  profile=${PROFILE:-dev}
  (cd .. && cargo build --locked --profile "$profile" --package receipts-cli --bin receipts)
  target=$(cd .. && cargo metadata --locked --no-deps --format-version 1 | jq -r .target_directory)
  bin=$target/$([[ $profile == dev ]] && echo debug || echo "$profile")/receipts
fi
if [[ ! package-lock.json -ot node_modules/.package-lock.json ]]; then
  npm ci --no-audit --no-fund --loglevel=error >/dev/null
fi
