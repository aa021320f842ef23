# Receipts. `make help` lists the targets; `make demo` and `make test` need nothing but this file's own steps.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The profile the demo builds with.
PROFILE ?= release
FUZZ_SECONDS ?= 20
# Cases for each address of the publisher API: `make test CONFORMANCE_CASES=2000` for the long form.
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

.PHONY: demo
demo: deps chdb ## The whole thing on this machine: outside-signed receipts in, verified numbers out
	@PROFILE=$(PROFILE) demo/run.sh

.PHONY: run
run: deps chdb ## Start all services on ./data
	cargo run --release --locked --package receipts-cli --bin receipts -- up --data ./data

.PHONY: run-prod-like
run-prod-like: deps chdb kafka ## Two gateways, three verifiers and the analytics API on Kafka, ClickHouse's protocol, PostgreSQL and Redis
	cargo build --release --locked --workspace --bins
	@$(TARGET)/release/receipts-prod-like

.PHONY: test
test: deps chdb kafka python prometheus lint alerts ## Everything CI runs
	cargo test --workspace --locked
	# The command as the tests built it.
	publisher-api/tests/conformance/run $(CONFORMANCE_CASES) $(TARGET)/debug/receipts
	RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts demo/interop.sh
	RECEIPTS_DEMO_BIN=$(TARGET)/debug/receipts DEMO_EXIT=1 demo/run.sh
	fuzz/run $(FUZZ_SECONDS)

.PHONY: chart
chart: deps helm python ## Lint the Helm chart and hold everything it renders against the schemas
	cargo build --locked --package receipts-cli
	helm/check $(TARGET)/debug/receipts

.PHONY: lint
lint: deps ## Format and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings

.PHONY: bench
bench: deps chdb ## Criterion benches, and the comparison that writes benches/runs/
	cargo bench --locked --package benches
	cargo run --release --locked --package benches --bin compare

.PHONY: drills
drills: deps chdb kafka ## Fault drills on Kafka, ClickHouse's protocol, PostgreSQL and Redis (half an hour; DRILLS="--short --only kafka" for less)
	cargo build --release --locked --workspace --bins
	$(TARGET)/release/receipts-drills $(DRILLS)

.PHONY: clean
clean: ## Remove what was built (the cached engines stay)
	cargo clean
