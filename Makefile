# Receipts. `make demo` and `make test` need nothing but this file's own steps; `make help` lists
# the other targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The profile that the demo and `make run` build with. Both are without Kafka.
PROFILE ?= demo
FUZZ_SECONDS ?= 300
# Cases for each address of the APIs of publishers: `make test CONFORMANCE_CASES=2000` for the long
# form.
CONFORMANCE_CASES ?= 50
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: deps
deps: ## Install what building and testing need (Debian packages; needs root or sudo only if something is missing)
	@scripts/install-deps

.PHONY: chdb
chdb: ## Fetch the ClickHouse engine (libchdb, from npm) into the cache
	@scripts/fetch-chdb

.PHONY: kafka
kafka: deps ## Fetch Apache Kafka (from Maven Central) into the cache
	@scripts/fetch-kafka

.PHONY: helm
helm: deps ## Build Helm (from its Go module) and fetch the CRDs that the chart is held against into the cache
	@scripts/fetch-helm

.PHONY: build
build: deps ## Build everything in release
	cargo build --release --workspace --locked

.PHONY: prometheus
prometheus: deps ## Fetch Prometheus and promtool (Debian's package, unpacked) into the cache
	@scripts/fetch-prometheus

.PHONY: alerts
alerts: prometheus ## Check the alerting rules, and test that every alert fires and stays quiet
	scripts/test-alerts

.PHONY: python
python: deps ## Make a Python environment with what tests use from PyPI in the cache
	@scripts/fetch-python

.PHONY: oidc-provider
oidc-provider: deps ## Install the identity provider of tests (oidc-provider, from npm) in the cache
	@scripts/fetch-oidc-provider

.PHONY: sdk-python-check
sdk-python-check: deps ## Lints, types, tests, conformance suite and wheel of the Python client library
	scripts/sdk-python-check

.PHONY: demo
demo: ## The whole thing on this machine: outside-signed receipts in, verified numbers out
	@PROFILE=$(PROFILE) demo/run.sh

.PHONY: run
run: ## Start all services on ./data, at one address
	@scripts/install-deps demo
	@scripts/fetch-chdb
	cargo run --profile $(PROFILE) --locked --package receipts-cli --no-default-features --bin receipts -- up --data ./data

.PHONY: run-prod-like
run-prod-like: deps chdb kafka ## Two gateways, three verifiers, two writers and the analytics API on Kafka, ClickHouse's protocol, PostgreSQL and Redis
	cargo build --release --locked --workspace --bins
	@$(TARGET)/release/receipts-load prod-like

.PHONY: check
check: ## For developers: format, lints, and tests that need no server (a minute on a warm build)
	@scripts/install-deps demo
	@scripts/fetch-chdb
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cargo test --workspace --locked --lib --test receipt --test documents --test record --test embedded -- --skip postgres

# `make test` and `make ci` run stages, two at a time: one uses the processor, while the other waits
# for the network or for time to pass. scripts/budgets has the seconds that each takes.
STAGES = $(MAKE) --no-print-directory --jobs 2
STAGE = @scripts/stage $(subst stage-,,$@)
BIN = $(TARGET)/debug/receipts
# Programs that put load on a whole installation, or kill it.
DRILLS = load-tests

.PHONY: test
test: deps ## Every test but drills and fuzzers: both engines, the demo, client libraries, the page, README
	@scripts/stage --begin
	@$(STAGES) $(addprefix stage-,build fetch page-check sdk-python sdk-typescript programs demo interop page readme) \
	  || { scripts/stage --summary; exit 1; }
	@scripts/stage --summary

.PHONY: ci
ci: test ## `make test`, then lints, drills, kills, fuzzers, the chart, conformance runs, documents' commands
	@$(STAGES) $(addprefix stage-,lint fetch-ci chart chart-live alerts clients conformance documents other-builds fuzz) \
	  || { scripts/stage --summary; exit 1; }
	# Alone: they freeze and kill what they measure.
	@$(STAGES) --jobs 1 stage-drills || { scripts/stage --summary; exit 1; }
	@scripts/stage --summary

.PHONY: stage-build
stage-build:
	$(STAGE) scripts/run-tests --build
.PHONY: stage-fetch
stage-fetch:
	$(STAGE) $(MAKE) chdb kafka oidc-provider python prometheus page-deps
.PHONY: stage-programs
stage-programs: stage-build stage-fetch
	$(STAGE) scripts/run-tests --without $(DRILLS)
.PHONY: stage-sdk-python
stage-sdk-python: stage-fetch
	@scripts/stage --without-rust sdk-python scripts/sdk-python-check
.PHONY: stage-sdk-typescript
stage-sdk-typescript: stage-fetch
	@scripts/stage --without-rust sdk-typescript scripts/sdk-typescript-check
.PHONY: stage-page-check
stage-page-check: stage-fetch
	@scripts/stage --without-rust page-check $(MAKE) page-check
.PHONY: stage-demo
stage-demo: stage-build stage-fetch
	$(STAGE) env RECEIPTS_DEMO_BIN=$(BIN) DEMO_EXIT=1 demo/run.sh
.PHONY: stage-interop
stage-interop: stage-demo
	$(STAGE) env RECEIPTS_DEMO_BIN=$(BIN) demo/interop.sh
# With the command as the tests built it: cargo builds it for tests with more features than alone.
.PHONY: stage-page
stage-page: stage-build stage-fetch
	$(STAGE) env RECEIPTS_DEMO_BIN=$(BIN) npm --prefix $(PAGE) run --silent test:browser
.PHONY: stage-readme
stage-readme: stage-build stage-fetch
	$(STAGE) scripts/docs-check --bin $(TARGET)/debug README.md
# These have limits of time of their own, so nothing is compiled beside them.
.PHONY: stage-clients
stage-clients: stage-other-builds
	$(STAGE) scripts/clients-check $(BIN)

.PHONY: stage-lint
stage-lint:
	$(STAGE) $(MAKE) lint
.PHONY: stage-fetch-ci
stage-fetch-ci:
	$(STAGE) $(MAKE) helm
.PHONY: stage-chart
stage-chart: stage-fetch-ci
	$(STAGE) helm/check $(BIN)
.PHONY: stage-chart-live
stage-chart-live: stage-chart
	$(STAGE) helm/live --cached
.PHONY: stage-alerts
stage-alerts:
	$(STAGE) scripts/test-alerts
.PHONY: stage-conformance
stage-conformance: stage-other-builds
	$(STAGE) scripts/conformance $(CONFORMANCE_CASES) $(BIN)
.PHONY: stage-documents
stage-documents: stage-other-builds
	$(STAGE) scripts/docs-check --bin $(TARGET)/debug docs/tutorials/*.md docs/how-to/*.md
# Examples in documentation comments, and the log as the demo has it, without Kafka.
.PHONY: stage-other-builds
stage-other-builds: stage-lint
	$(STAGE) sh -c 'cargo test --workspace --locked --doc && \
	  cargo test --package receipt-log --no-default-features --locked --lib kafka_config::tests::brokers'
.PHONY: stage-fuzz
stage-fuzz: stage-clients stage-conformance stage-documents
	$(STAGE) fuzz/run 20
.PHONY: stage-drills
stage-drills:
	$(STAGE) sh -c 'scripts/run-tests --jobs 1 $(DRILLS) && scripts/run-tests --ignored analytics-api::exact receipts-cli::cli'

.PHONY: fuzz
fuzz: ## Fuzz what reads foreign bytes, with coverage and for FUZZ_SECONDS each
	fuzz/run $(FUZZ_SECONDS)

.PHONY: chart
chart: deps helm python ## Lint the Helm chart and hold everything it renders against the schemas
	scripts/run-tests --build
	helm/check $(BIN)

.PHONY: chart-live
chart-live: deps ## Install, upgrade and roll back the Helm chart on a real API server (built once: 15 minutes)
	helm/live

PAGE = analytics-api/dashboard

# What the lock files name, anew when they change.
$(PAGE)/node_modules/.package-lock.json demo/node_modules/.package-lock.json: %/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --no-audit --no-fund --loglevel=error > /dev/null
	touch $@

.PHONY: page-deps
page-deps: deps $(PAGE)/node_modules/.package-lock.json demo/node_modules/.package-lock.json

.PHONY: page
page: page-deps ## Build the dashboard page anew
	cd $(PAGE) && npm run --silent typecheck && npm run --silent build

.PHONY: page-check
page-check: page-deps ## Lint, types and unit tests of the dashboard page, and whether what is committed is what its sources make
	cd $(PAGE) && npm run --silent check

.PHONY: page-test
page-test: page-deps chdb ## The dashboard page in Chromium, against services as the tests built them
	scripts/run-tests --build
	cd $(PAGE) && RECEIPTS_DEMO_BIN=$(BIN) npm run --silent test:browser

.PHONY: screenshots
screenshots: page-deps chdb ## Take the README's pictures of the dashboard page
	cargo build --locked --workspace --bin receipts
	cd $(PAGE) && RECEIPTS_DEMO_BIN=$(BIN) npm run --silent screenshots

.PHONY: sdk-typescript-check
sdk-typescript-check: deps ## Types, tests, conformance suite and package of the TypeScript client library
	scripts/sdk-typescript-check

.PHONY: sdk-typescript-runtimes
sdk-typescript-runtimes: deps ## As sdk-typescript-check, and a smoke test in Deno, Bun and workerd (fetches 350 MB)
	scripts/sdk-typescript-check --runtimes

.PHONY: lint
lint: deps ## Format and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	scripts/check-dependencies
	scripts/check-words
	scripts/check-lines
	scripts/sizing

# What cargo-deny checks; its advisories need the network.
DENY ?= licenses bans sources

.PHONY: deny
deny: deps ## cargo-deny itself, over deny.toml (builds it once: minutes; DENY="advisories" needs the network)
	test -x $(TARGET)/tools/bin/cargo-deny || cargo install cargo-deny --version 0.20.2 --locked --root $(TARGET)/tools
	$(TARGET)/tools/bin/cargo-deny --locked check --deny unmatched-skip $(DENY)

.PHONY: bench
bench: deps chdb ## The comparison that writes benches/runs/, and the Criterion benches
	cargo bench --locked --package benches
	cargo run --release --locked --package benches --bin compare

.PHONY: cost
cost: deps chdb kafka ## The cost ledger: CPU, switches, bytes and memory of a receipt, compared with the last run (COST_FLAGS="--only up/batches-1000" for a part)
	cargo build --release --locked --workspace --bins
	$(TARGET)/release/compare cost $(COST_FLAGS)

.PHONY: size-check
size-check: deps chdb ## Measure what one receipt costs here, and compare it with docs/sizing.md (4 minutes)
	cargo build --release --locked --package receipts-cli --package load-tests --bins
	scripts/size-check --programs $(TARGET)/release

.PHONY: images
images: deps chdb kafka ## Build the images without a Docker engine, and run each in its own root under load (needs root)
	@scripts/install-deps buildah debootstrap
	cargo build --release --locked --workspace --bins
	deploy/images $(TARGET)/images $(TARGET)/release
	deploy/image-check $(TARGET)/images $(TARGET)/release

.PHONY: drills
drills: deps chdb kafka ## Fault drills on Kafka, ClickHouse's protocol, PostgreSQL and Redis (half an hour; DRILL_FLAGS="--short --only kafka" for less)
	cargo build --release --locked --workspace --bins
	$(TARGET)/release/receipts-load drills $(DRILL_FLAGS)

.PHONY: clean
clean: ## Remove what was built (the cached engines stay)
	cargo clean
