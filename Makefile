# Everything a contributor types. `make run` and `make test` are the two that a newcomer needs.
# Forks of 3.13 and 3.12 copy half as many pages (docs/adr/0020): one of these where there is one, pyenv's as well.
PYTHON ?= $(shell for python in python3.13 python3.12 $(PYENV_ROOT)/versions/3.13.*/bin/python3 \
	$(PYENV_ROOT)/versions/3.12.*/bin/python3 python3; do \
	$$python -c 'import ctypes, ensurepip, sqlite3, ssl, venv' 2>/dev/null && break; done; echo $$python)
BIN := .venv/bin
INSTALLED := .venv/.installed
PREPARED := .venv/.prepared
TWO := -n 2 --dist loadfile # processes that share the test files
RUNTIME := src/belljar/engines/wasm/runtime
DENO := $(CURDIR)/$(BIN)/deno
# Whatever the environments are made of. Syncing is instant unless one of them really changed.
INGREDIENTS := $(wildcard src/belljar/packages/*.py src/belljar/packages/sources/*.py src/belljar/packages/pins.json \
	src/belljar/engines/wasm/*.py $(RUNTIME)/*.ts src/belljar_kernel/*.py)

.PHONY: setup install run quick test test-native test-wasm test-long check format bench clean

## setup: the virtual environment, and what sandboxes of each engine import from
setup: $(PREPARED)

## install: the virtual environment alone
install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m compileall -q src  # as pip does with a wheel: some environments write no bytecode
	touch $@

$(PREPARED): $(INSTALLED) $(INGREDIENTS)
	$(BIN)/belljar packages sync
	$(BIN)/belljar packages sync --engine wasm
	touch $@

## run: the bundled tour, in a sandbox on the best engine of this machine
run: setup
	$(BIN)/python examples/tour.py

## quick: format, lint, types, imports, and the tests that need no walls; needs no prepared environments
quick: install
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(TWO) -q -m "not engine and not long and not slow"

## test: the suite; T=… narrows it (make test T=tests/test_docs.py)
test: setup
	$(BIN)/python -m pytest $(TWO) $(T)

## test-native, test-wasm: those tests of the suite that one engine's walls are needed for
test-native test-wasm: setup
	$(BIN)/python -m pytest $(TWO) -m "$(@:test-%=%) and not long" $(T)

## test-long: what takes long: every conformance case and every attack on wasm, and what else has the mark
test-long: setup
	$(BIN)/python -m pytest $(TWO) -m long $(T)

## check: format, lint, types, and which module may import which; for Python and for TypeScript
check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 --package belljar_kernel
	$(BIN)/lint-imports
	cd $(RUNTIME) && $(DENO) fmt --check --quiet . && $(DENO) lint --quiet . && $(DENO) check --quiet *.ts

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd $(RUNTIME) && $(DENO) fmt --quiet .

## bench: the figures, against ipykernel, bwrap + python and plain python, in one run
bench: setup
	$(BIN)/belljar bench

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
