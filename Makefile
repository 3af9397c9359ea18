# Names for the programs in ci/; each can be run by hand and says at its top what it does.
.PHONY: help dev check test demo bench fuzz soak

help: ## show this list
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' $(MAKEFILE_LIST)

dev: ## make .venv and build the Rust parts into it
	@ci/dev

check: ## lint and quick tests: the inner loop
	@ci/check

test: ## everything, with real engines; what CI runs
	@ci/test

demo: ## one fleet on four vendors, simulated, with live traffic
	@ci/dev
	@.venv/bin/llmd-ctl demo

bench: ## measure
	@ci/bench

fuzz: ## a million inputs for every parser
	@ci/fuzz

soak: ## ten million requests, alike and then of all kinds: nothing may be lost or stay
	@ci/bench router --soak 10000000
	@ci/soak
