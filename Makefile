# The same five targets for people and for .ci/run.
PYTHON ?= python
export OMP_NUM_THREADS = 1

.PHONY: setup fmt check test bench

setup:
	$(PYTHON) -m pip install -c constraints.txt -e ".[dev]"

fmt:
	ruff format .
	ruff check --fix .

check:
	ruff format --check .
	ruff check .
	mypy
	lint-imports

# Where the models cannot be fetched, the tests that need them are skipped with the reason.
test:
	-$(PYTHON) tests/models/fetch.py
	$(PYTHON) -m pytest

# Prints Markdown tables: what was measured, what was promised.
bench:
	$(PYTHON) benchmarks/startup.py
	$(PYTHON) benchmarks/variants.py
