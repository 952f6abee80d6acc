# `make test` is the whole gate, the same for people and for CI; `make demo` shows what redrive does. Both set up what
# they need. Built things go to CARGO_TARGET_DIR, by default `target`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test verify soak bench clean

cargo_demo = cargo build --locked --features broker-tests --bin redrive --example demo
cargo_bench = cargo build --locked --features broker-tests --bin redrive --example demo --example bench
cargo_soak = cargo build --locked --features broker-tests --bin redrive --example soak

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf 'make %-8s %s\n' "$$name" "$$text"; done

setup: ## check what the build needs; install it where that may be done
	@scripts/setup kafka

demo: setup ## two processes, a flaky handler, a kill, and the ledger of every record
	$(cargo_demo)
	cargo run --quiet --locked --features broker-tests --example demo -- $(DEMO)

test: ## the whole gate, with the tests on a real Kafka
	@scripts/gate broker

verify: ## the gate without a broker
	@scripts/gate no-broker

soak: setup ## the simulation with 20,000 seeds, the broker tests at full size, and a million records under chaos; SOAK_MINUTES bounds that
	$(cargo_soak)
	REDRIVE_SIM_SEEDS=$${REDRIVE_SIM_SEEDS:-20000} REDRIVE_TEST_SIZE=full cargo test --locked --features broker-tests --test it --test memory --test broker
	cargo run --quiet --locked --features broker-tests --example soak -- $(SOAK)

bench: setup ## records per second through an HTTP handler that never fails; what a guard costs, and a restore; optimised build
	$(cargo_bench) --release --target-dir $${CARGO_TARGET_DIR:-target}/bench
	REDRIVE_KAFKA_JVM="$${REDRIVE_KAFKA_JVM:--Xmx1g}" cargo run --quiet --locked --release --target-dir $${CARGO_TARGET_DIR:-target}/bench --features broker-tests --example demo -- --calm --records 200000 $(DEMO)
	REDRIVE_KAFKA_JVM="$${REDRIVE_KAFKA_JVM:--Xmx1g}" $${CARGO_TARGET_DIR:-target}/bench/release/examples/bench $(BENCH)

clean: ## remove what was built; Kafka's fetched jars stay in the user's cache
	cargo clean
