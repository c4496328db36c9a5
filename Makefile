# Everything runs in .venv, which the first command makes; .peers holds what tests and benchmarks compare with.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
WORKERS ?= 2

.PHONY: demo test lint types unit torture benchmark clean

demo: .venv/.done
	$(BIN)/ctrobust demo

test: lint types unit

lint: .venv/.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.done
	$(BIN)/mypy --strict

unit: .venv/.done .peers/.done
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term:skip-covered

# Longer than CI should take: many kills at random steps.
torture: .venv/.done
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture.py

# On an idle machine; Fashion-MNIST's part needs the data: benchmarks/training.py fashion --data-root DIR
benchmark: .venv/.done
	$(BIN)/python benchmarks/training.py speed | tee benchmarks/output/training-speed.txt

.venv/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.peers/.done: .venv/.done requirements-peers.txt
	rm -rf .peers
	$(BIN)/pip install --quiet --no-deps --target .peers --requirement requirements-peers.txt
	touch $@

clean:
	rm -rf .venv .peers .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build
