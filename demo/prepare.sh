# Sourced by run.sh and interop.sh, in their folder: sets `bin` to the built command, and installs
# the npm package. Without RECEIPTS_DEMO_BIN it builds the command in PROFILE, and fetches the
# engine and the npm package meanwhile.

install_npm_package() {
  if [[ ! package-lock.json -ot node_modules/.package-lock.json ]]; then
    npm ci --no-audit --no-fund --loglevel=error >/dev/null
    # npm keeps the time of a file that it doesn't change.
    touch node_modules/.package-lock.json
  fi
}

# Builds the command, with a line of progress on standard error. The demo's build has no Kafka.
build_command() { # PROFILE
  local cores units started line done=0 shown=-1
  # CPU time of the first build, in seconds: docs/production.md has the measurement.
  local cpu_s=500
  cores=$(nproc)
  units=$(cargo tree --locked --package receipts-cli --no-default-features --edges normal,build --prefix none --format '{p} {f}' |
    sed 's/ (\*)$//' | sort -u | wc -l)
  started=$SECONDS
  if [[ ! -e $target/$1/receipts ]]; then
    echo "building the receipts command: about $(((cpu_s / cores + 59) / 60)) minutes the first time, on $cores idle cores" >&2
  fi
  # Standard output is a JSON object for each crate that is ready, standard error has the faults.
  while read -r line; do
    case $line in
      *'"kind":["custom-build"]'*) ;;
      '{"reason":"compiler-artifact"'*'"fresh":false'*) done=$((done + 1)) ;;
      '{"reason":"compiler-artifact"'*) units=$((units - 1)) ;;
    esac
    # Cargo builds what build scripts share with the program once for each.
    if ((units < done)); then units=$done; fi
    if ((done > 0 && SECONDS - started != shown)); then
      # A terminal gets a line that changes every second, a log one each half minute.
      if [[ -t 2 ]]; then
        shown=$((SECONDS - started))
        printf '\r  %d of %d crates, %d:%02d so far ' "$done" "$units" $((shown / 60)) $((shown % 60)) >&2
      elif ((SECONDS - started >= shown + 30)); then
        shown=$((SECONDS - started))
        printf '  %d of %d crates, %d:%02d so far\n' "$done" "$units" $((shown / 60)) $((shown % 60)) >&2
      fi
    fi
  done < <(cargo build --locked --quiet --profile "$1" --package receipts-cli --no-default-features --bin receipts \
    --message-format json-render-diagnostics || echo failed >"$build_failed")
  if [[ -t 2 ]] && ((done > 0)); then printf '\r\e[K' >&2; fi
  [[ ! -s $build_failed ]] || return 1
  if ((done > 0)); then
    printf '  %d of %d crates, %d:%02d\n' "$done" "$done" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) >&2
  fi
}

if [[ -n ${RECEIPTS_DEMO_BIN:-} ]]; then
  bin=$RECEIPTS_DEMO_BIN
  install_npm_package
else
  ../scripts/install-deps demo
  profile=${PROFILE:-demo}
  target=$(cargo metadata --locked --no-deps --format-version 1 | jq -r .target_directory)
  fetched=$(mktemp) build_failed=$(mktemp)
  # Both wait for the network, and cargo for the processor.
  { ../scripts/fetch-chdb && install_npm_package; } >"$fetched" 2>&1 &
  fetching=$!
  trap 'kill "$fetching" 2>/dev/null || true; rm -f "$fetched" "$build_failed"' EXIT
  build_command "$profile" || exit 1
  if ! wait "$fetching"; then
    cat "$fetched" >&2
    exit 1
  fi
  trap - EXIT
  rm -f "$fetched" "$build_failed"
  bin=$target/$([[ $profile == dev ]] && echo debug || echo "$profile")/receipts
fi
