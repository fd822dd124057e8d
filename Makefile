# make demo   the main job, end to end, on this machine       make test   every check and test
# make serve  the service with the demo's data                make bench  comparisons with peers
# make setup  .venv with everything installed                 make web    the dashboard's assets
# make docs   the documentation as a site                     make agent  the device agent as one file
# make coverage   the tests again, with the lines and branches that none of them reaches, file by file
# make faults kill -9, cuts and clock jumps, on a quiet machine

# Containers often set it; here hundreds of processes import the same modules, and would compile each of them again.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# On two cores: a third of a worker's time is waiting.
WORKERS ?= 3
# The least that the tests may reach of the compiler's lines and branches, in percent.
COVERED := 95
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
SAY := @printf '\033[1m==> %s\033[0m\n'

SETUP := .venv/.setup-stamp
SETUP_INPUTS := requirements/dev.txt requirements/cuda.txt requirements/lock.txt $(wildcard */pyproject.toml)
LIBRARIES := .venv/.libraries-stamp
WEB := .cache/web-stamp
WEB_INPUTS := docker/build-page $(shell find web -type f -not -path '*/node_modules/*' -not -path '*/test-results/*' -not -name schema.ts 2>/dev/null)

.PHONY: help setup environment web demo serve docs agent test lint unit coverage faults web-test bench bench-quick bench-more lock clean

help:
	@sed -n 's/^# //p' Makefile

setup: $(LIBRARIES)

environment: $(SETUP)

$(SETUP): $(SETUP_INPUTS)
	@test -x $(BIN)/python || { \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; say make PYTHON=python3.12 ..."; exit 1; }; \
	  echo "creating .venv"; $(PYTHON) -m venv .venv; }
	$(SAY) "installing torch (the largest download)"
	@$(BIN)/pip --disable-pip-version-check install --no-compile torch==2.13.0
	$(SAY) "installing pinned requirements"
	@$(PIP) install --no-compile -r requirements/dev.txt -c requirements/lock.txt
	$(SAY) "installing pockengine, pock-server, pock-agent and pock-client from this checkout"
	@$(PIP) install --no-build-isolation -c requirements/lock.txt -e compiler -e server -e device_agent -e client
	@touch $@

$(LIBRARIES): $(SETUP)
	$(SAY) "building the C libraries of two targets (once, about 2 minutes)"
	@$(BIN)/python -m pockengine.codegen.prepare host raspberry-pi-4
	@touch $@

web: $(WEB)

$(WEB): $(WEB_INPUTS)
	@mkdir -p .cache
	@if node -e 'const [a,b]=process.versions.node.split(".").map(Number);process.exit(a>20||(a===20&&b>=19)?0:1)' 2>/dev/null; then \
	  printf '\033[1m==> %s\033[0m\n' "building the dashboard"; \
	  docker/build-page && touch $@; \
	else echo "Node.js 20.19 or newer is not installed: the service runs without its page"; fi

demo: $(LIBRARIES) web
	@$(BIN)/python -m demo.run

serve: $(LIBRARIES) web
	@$(BIN)/python -m demo.serve

docs: $(SETUP)
	$(SAY) "documentation: .cache/docs/index.html"
	@$(BIN)/python -m sphinx -W --keep-going -q -d .cache/docs-trees docs .cache/docs

agent: $(SETUP)
	@$(BIN)/python -m device_agent.onefile.build --to .cache/agent

test: lint unit web-test

lint: $(SETUP)
	$(SAY) "ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	$(SAY) "mypy --strict"
	@$(BIN)/mypy
	$(SAY) "import rules"
	@$(BIN)/lint-imports
	$(SAY) "measures of the house"
	@$(BIN)/pytest -q tests/structure/test_house.py

unit: $(LIBRARIES) web
	$(SAY) "pytest"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -p tests.coverage --cover-below $(COVERED) $(PYTEST_ARGS) \
	  || { test $$? = 1; printf '\033[1m==> %s\033[0m\n' "pytest: what failed, once more and alone"; \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1 $(PYTEST_ARGS); }

coverage: $(LIBRARIES) web
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -p tests.coverage --cover-files $(PYTEST_ARGS)

faults: $(LIBRARIES)
	@$(BIN)/python -m pytest -q tests/faults/test_faults.py $(PYTEST_ARGS)

web-test: web
	@if test -d web/node_modules; then printf '\033[1m==> %s\033[0m\n' "dashboard: types, lint, unit tests"; cd web && npm run check; \
	elif test "$${POCK_REQUIRE_ALL:-0}" = 1; then echo "Node.js 20.19 or newer is required here"; exit 1; \
	else echo "dashboard unit tests left out: Node.js 20.19 or newer is not installed"; fi

bench: $(LIBRARIES)
	@$(BIN)/python -m benchmarks.step_time --json benchmarks/step_time.json --write docs/performance.md

bench-quick: $(LIBRARIES)
	@$(BIN)/python -m benchmarks.step_time --workload mobilenetv2-b1-full mobilenetv2-b1-last8 --rounds 4 \
	  --peer pytorch torch.compile jax pockengine

bench-more: $(LIBRARIES)
	@$(BIN)/python -m benchmarks.ablation --write docs/performance.md
	@$(BIN)/python -m benchmarks.scaling --write docs/performance.md

lock: $(SETUP)
	@$(BIN)/pip freeze --exclude-editable | grep -vE '^(torch|triton|nvidia-|cuda-)|^-e' > requirements/lock.txt

clean:
	rm -rf .cache/demo .cache/tests .cache/web-stamp .mypy_cache .ruff_cache .pytest_cache .hypothesis
