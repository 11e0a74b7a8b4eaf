# The same targets for people and for .ci/run.
PYTHON ?= python
export OMP_NUM_THREADS = 1

.PHONY: setup fmt check test test-lowest bench docs coverage

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

# With the versions of constraints-lowest.txt installed: what touches transformers, Typer, Matplotlib and the rest. Their
# own warnings are no errors here. Left out is what transformers 5.3 does otherwise: ModernBERT's eager attention gives no
# weights, Gemma 4 and DiffLlama cache otherwise, a wrong config has another message; and a test that makes warnings of
# Matplotlib 3.10 errors.
LOWEST = tests/capture/test_attention_interface.py tests/models/test_loading.py tests/models/test_pretrained.py \
  tests/models/test_generation.py tests/models/test_batches.py tests/models/test_tokens.py tests/models/test_vision.py \
  tests/commands tests/render tests/documents tests/maps tests/test_shell.py tests/test_examples.py tests/test_versions.py

test-lowest:
	$(PYTHON) -m pytest -W default -p no:cacheprovider -k "not modernbert and not gemma4_text and not diffllama and not wrong_with_a_config and not closed_stderr" $(LOWEST)

# Prints Markdown tables: what was measured, what was promised.
bench:
	$(PYTHON) benchmarks/startup.py
	$(PYTHON) benchmarks/variants.py
	$(PYTHON) benchmarks/observing.py
	$(PYTHON) benchmarks/heads.py
	$(PYTHON) benchmarks/each_line.py

# Runs the marked commands of docs/tour.md and writes what they print and draw under docs/tour/; draws docs/terminal.svg and docs/gallery.md.
docs:
	$(PYTHON) docs/tour.py
	$(PYTHON) docs/terminal.py
	$(PYTHON) docs/gallery.py

# Captures a tiny model of every family in the installed transformers and writes docs/coverage.md; about 15 minutes
# on two cores; some families need `pip install attncli[sweep]`. A run that was stopped goes on where it was; `rm
# build/coverage.jsonl` starts afresh.
coverage:
	$(PYTHON) tests/families/sweep.py
