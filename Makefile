# The names of everything that people and CI run. `make help` lists them.

PY := .venv/bin/python
DEMO_FLAGS ?=
TEST_FLAGS ?=
BENCH_FLAGS ?= --quick

ROUNDS ?= 10
SECONDS ?= 600

.PHONY: help setup build lint format test torture fuzz demo bench figures docs-pictures clean distclean
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

setup: ## make .venv, install the dependencies, compile (each only when needed)
	@tools/setup.sh
	@$(PY) tools/build.py

build: setup ## compile what changed

lint: setup ## ruff, mypy, import contracts (hints of the compiler fail the build itself)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-cache --no-logo

format: setup ## let ruff rewrite the sources
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

# Two processes: much of the time of daemons and consoles is waiting. A file's tests stay together.
test: lint ## set up, lint, and run the whole test suite; TEST_FLAGS go to pytest
	@tools/setup.sh test
	@$(PY) -m pytest --numprocesses 2 --dist loadfile --durations=10 $(TEST_FLAGS)

torture: setup ## every fault many times, then simulated lives until SECONDS (600) are over; prints what was done
	@tools/setup.sh test
	@$(PY) tools/torture.py --seconds $(SECONDS)

fuzz: setup ## random commands against the model, random bytes against the codecs, ROUNDS times (10)
	@for round in $$(seq $(ROUNDS)); do echo "round $$round of $(ROUNDS)"; $(PY) -m pytest -q tests/matching tests/protocol tests/unit $(TEST_FLAGS) || exit 1; done

demo: setup ## an exchange with a synthetic market and the console; DEMO_FLAGS="--headless --seconds 10"
	@exec .venv/bin/bourse demo --data demo-data $(DEMO_FLAGS)

bench: setup ## every workload, then the budgets; BENCH_FLAGS="--full --repeat 5 --interleave --keep"
	@.venv/bin/bourse bench all $(BENCH_FLAGS)
	@.venv/bin/bourse bench check

figures: setup ## measure the curves, the waterfall, instruction counts and the machine's limits (half an hour, quiet)
	@$(PY) bench/growth.py
	@$(PY) bench/curves.py
	@$(PY) bench/instructions.py
	@cc -O2 -pthread bench/limits.c -o build/limits && build/limits build 200

docs-pictures: setup ## draw the console's pictures of README and docs from a real exchange (three minutes)
	@$(PY) tools/docs_pictures.py

clean: ## remove what builds and tests leave
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	@find bourse tests -name '*.so' -delete -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and the demo's data
	@rm -rf .venv demo-data
