# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-slow lint format install clean

demo: $(INSTALLED)
	$(BIN)/calm demo

test: lint
	$(BIN)/pytest

# The bars at full size, which take longer than a change should wait; the outcome goes to a dated file with its commit.
test-slow: $(INSTALLED)
	$(BIN)/python tests/slow.py

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

install: $(INSTALLED)

# Installed once, and again whenever the pins or the declared dependencies change. PyTorch goes first and alone, at its
# pinned version, so that nothing else chooses a build of it.
$(INSTALLED): constraints.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "calm-pde needs Python 3.11 or newer; use make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo .pytest_cache .ruff_cache .hypothesis
