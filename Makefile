# Receipts. `make help` lists the targets; `make demo` and `make test` need nothing but this file's
# own steps.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The profile that the demo and `make run` build with. Both are without Kafka.
PROFILE ?= demo
FUZZ_SECONDS ?= 20
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

# Tests of formats, lists and contracts that need no server: those of `make check`. One call of
# cargo, because another choice of packages has other features, and so builds dependencies again.
CONTRACT_TESTS = documents format json judge vectors record embedded contract example logs_document metrics_document metrics_list

.PHONY: check
check: ## For developers: format, lints, unit and contract tests (5 minutes on a warm build)
	@scripts/install-deps demo
	@scripts/fetch-chdb
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cargo test --workspace --locked --lib --bins $(addprefix --test ,$(CONTRACT_TESTS)) -- --skip postgres

# What tests need from the network comes while the linter compiles.
.PHONY: test
test: deps ## Everything CI runs
	$(MAKE) --jobs 2 --output-sync=recurse lint test-deps
	cargo test --workspace --locked
	# The log as the demo has it, without Kafka.
	cargo test --package receipt-log --no-default-features --locked --lib kafka_config::tests::brokers
	# The command as the tests built it.
	helm/check $(TARGET)/debug/receipts
	helm/timings $$(cat helm/short-timings) > $(TARGET)/rollout-timings.json
	$(TARGET)/debug/receipts-load rollout --timings $(TARGET)/rollout-timings.json --rules 'helm/receipts/files/rules/*.yaml'
	scripts/conformance $(CONFORMANCE_CASES) $(TARGET)/debug/receipts
	RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts demo/interop.sh
	RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts DEMO_EXIT=1 demo/run.sh
	$(MAKE) page-browser
	scripts/docs-check --bin $(TARGET)/debug README.md docs/tutorials/*.md docs/how-to/*.md
	$(MAKE) --jobs 2 --output-sync=recurse test-clients fuzz

.PHONY: test-deps
test-deps: chdb kafka python helm prometheus alerts page-check

# Tests of client libraries mostly wait, so they run beside the fuzzers.
.PHONY: test-clients
test-clients: deps
	scripts/sdk-python-check
	scripts/sdk-typescript-check
	scripts/clients-check $(TARGET)/debug/receipts

.PHONY: fuzz
fuzz: ## Fuzz what reads foreign bytes
	fuzz/run $(FUZZ_SECONDS)

.PHONY: chart
chart: deps helm python ## Lint the Helm chart and hold everything it renders against the schemas
	cargo build --locked --workspace --bin receipts
	helm/check $(TARGET)/debug/receipts

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
	cargo build --locked --workspace --bin receipts
	$(MAKE) page-browser

# With the command as it is: cargo builds it for tests with more features than alone.
.PHONY: page-browser
page-browser: page-deps chdb
	cd $(PAGE) && RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts npm run --silent test:browser

.PHONY: screenshots
screenshots: page-deps chdb ## Take the README's pictures of the dashboard page
	cargo build --locked --workspace --bin receipts
	cd $(PAGE) && RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts npm run --silent screenshots

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

# What cargo-deny checks; its advisories need the network.
DENY ?= licenses bans sources

.PHONY: deny
deny: deps ## cargo-deny itself, over deny.toml (builds it once: minutes; DENY="advisories" needs the network)
	test -x $(TARGET)/tools/bin/cargo-deny || cargo install cargo-deny --version 0.20.2 --locked --root $(TARGET)/tools
	$(TARGET)/tools/bin/cargo-deny --locked check --deny unmatched-skip $(DENY)

.PHONY: bench
bench: deps chdb ## Criterion benches, and the comparison that writes benches/runs/
	cargo bench --locked --package benches
	cargo run --release --locked --package benches --bin compare

.PHONY: size-check
size-check: deps chdb ## Measure what one receipt costs here, and compare it with docs/sizing.md (4 minutes)
	cargo build --release --locked --package receipts-cli --package load-tests --bins
	scripts/size-check --programs $(TARGET)/release

.PHONY: images
images: deps chdb kafka helm python ## Build the images without a Docker engine, and run each in its own root under load (needs root)
	@scripts/install-deps buildah debootstrap
	cargo build --release --locked --workspace --bins
	deploy/images $(TARGET)/images $(TARGET)/release
	deploy/image-check $(TARGET)/images $(TARGET)/release

.PHONY: rollout
rollout: deps chdb kafka helm prometheus python ## Replay a helm upgrade under load, with the chart's own timings (two minutes)
	cargo build --release --locked --workspace --bins
	helm/timings > $(TARGET)/rollout-timings.json
	$(TARGET)/release/receipts-load rollout --rate 1000 --timings $(TARGET)/rollout-timings.json --rules 'helm/receipts/files/rules/*.yaml'

.PHONY: drills
drills: deps chdb kafka ## Fault drills on Kafka, ClickHouse's protocol, PostgreSQL and Redis (half an hour; DRILLS="--short --only kafka" for less)
	cargo build --release --locked --workspace --bins
	$(TARGET)/release/receipts-load drills $(DRILLS)

.PHONY: clean
clean: ## Remove what was built (the cached engines stay)
	cargo clean
