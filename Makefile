# make demo, make test: each sets up what it needs in a fresh clone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test benchmarks clean

demo: $(READY)
	$(BIN)/tcsl run digits --out runs/demo --resume

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=90

benchmarks: $(READY)
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/rules.py
	$(BIN)/python benchmarks/engine.py cpu heap
	$(BIN)/python benchmarks/feeding.py
	$(BIN)/python benchmarks/table.py
	$(BIN)/python benchmarks/page.py

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tcsl needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "installing torch and friends; this takes a few minutes the first time"
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) runs .coverage*
