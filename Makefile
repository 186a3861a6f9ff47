# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TESTABLE := $(VENV)/.testable

# Threads that wait soon sleep; spinning ones starve other processes on the same cores.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 1000

.PHONY: demo test test-slow lint format install viewer clean

demo: $(INSTALLED)
	$(BIN)/calm demo

# Two processes, a file of tests at a time.
test: lint
	$(BIN)/pytest -n 2 --dist loadfile

# The bars at full size, which take longer than a change should wait; the outcome goes to a dated file with its commit.
test-slow: $(TESTABLE)
	$(BIN)/python tests/slow.py -n 2 --dist loadfile

lint: $(TESTABLE)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(TESTABLE)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

install: $(TESTABLE)

# The page of reports, built from viewer/ with Node; the result is committed, so that nobody else needs Node.
viewer:
	cd viewer && npm ci && npm run build

# Installed once, and again whenever the pins or the declared dependencies change. PyTorch goes first and alone, at its
# pinned version, so that nothing else chooses a build of it. The demo needs the package alone, the tests all that they test.
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt

$(INSTALLED): constraints.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "calm-pde needs Python 3.11 or newer; use make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable .
	touch $@

$(TESTABLE): $(INSTALLED)
	$(PIP) --editable '.[dev,datagen,mesh]'
	touch $@

clean:
	rm -rf $(VENV) demo .pytest_cache .ruff_cache .hypothesis
