# Everything below works on a fresh machine with Python 3.11 or newer and make.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p) 2>/dev/null),$(p))))
VENV   ?= .venv
# Half of the time tests wait for what other processes do, so three at a time keep two cores busy; a file stays with one
# worker.
WORKERS ?= 3
BIN    := $(VENV)/bin

.PHONY: help demo test check format lint types layers specs bench screenshots lock setup setup-dev clean

help:            ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/run.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "stethoscope needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/run.stamp          ## virtual environment with what the console needs
setup-dev: $(VENV)/dev.stamp      ## the same with the test and check tools

demo: setup      ## the console on a simulated fleet of 64 nodes
	@exec $(BIN)/stethoscope demo

test: setup-dev  ## the whole test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

check: format-check lint types layers specs  ## formatter, linter, types, import contracts, spec self-tests

format: setup-dev ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: format-check
format-check: setup-dev
	$(BIN)/ruff format --check .

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/vermin -q --no-tips --violations -t=3.6- probes/*.py

types: setup-dev
	$(BIN)/mypy

layers: setup-dev
	$(BIN)/lint-imports --no-cache

specs: setup-dev
	$(BIN)/stethoscope lint

bench: setup-dev ## measure the budgets of docs/performance.md
	$(BIN)/python -m benchmarks

screenshots: setup-dev ## draw the pictures in screenshots/ again
	$(BIN)/python screenshots/make.py

lock:            ## resolve the locks again (needs uv)
	uv pip compile --generate-hashes --universal --python-version 3.11 --no-header -q pyproject.toml --extra build -o requirements.lock
	uv pip compile --generate-hashes --universal --python-version 3.11 --no-header -q pyproject.toml --extra build --extra test --extra dev -c requirements.lock -o requirements-dev.lock

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
