# Everything runs in .venv, which the first command makes; .peers holds what tests compare with, .peers-benchmark what
# only benchmarks do.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
WORKERS ?= 2

.PHONY: demo test lint types unit slow docs torture lock audit benchmark strength clean

demo: .venv/.done
	$(BIN)/ctrobust demo

test: lint types unit

lint: .venv/.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.done
	$(BIN)/mypy --strict

unit: .venv/.done .peers/.done
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term:skip-covered --durations=25

# Tests that are slow by nature: every table and figure at the smallest size, the demo, several processes, kills, and
# attacks against the reference implementation. CI runs them after `make test`.
slow: .venv/.done .peers/.done docs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow --timeout 1800 --durations=10 tests

# The site, in docs/build/html; a warning is an error. The pages' code blocks are tests of `make test` and `make slow`.
docs: .venv/.done
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet --builder html docs docs/build/html
	@echo "docs/build/html/index.html"

# Longer than CI should take, half an hour: kills, full disks, damaged and hostile files; as root it mounts disks too.
torture: .venv/.done
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python benchmarks/torture.py | tee benchmarks/output/torture.txt

# The versions and licences of all packages; after a change of pyproject.toml.
lock: .venv/.done
	$(BIN)/python benchmarks/list_dependencies.py

# Looks up every locked version in PyPI's list of known vulnerabilities, which needs the network. --strict: a package
# that could not be looked up is an error; without it pip-audit reports success also where nothing was looked up.
audit: .audit/.done
	.audit/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements-lock.txt

# On an idle machine; Fashion-MNIST's part needs the data: benchmarks/training.py fashion --data-root DIR
benchmark: .venv/.done .peers/.done .peers-benchmark/.done
	$(BIN)/python benchmarks/training.py speed | tee benchmarks/output/training-speed.txt
	$(BIN)/python benchmarks/attacks.py $(if $(DATA),--data-root $(DATA)) | tee benchmarks/output/attacks.txt

# Two hours or less; needs MNIST: make strength DATA=DIR
strength: .venv/.done .peers/.done
	$(BIN)/python -m benchmarks.strength natural --data-root $(DATA) | tee benchmarks/output/strength-natural.txt
	$(BIN)/python -m benchmarks.strength trained --data-root $(DATA) | tee benchmarks/output/strength-trained.txt

.venv/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

.peers/.done: .venv/.done requirements-peers.txt
	rm -rf .peers
	$(BIN)/pip install --quiet --no-deps --target .peers --requirement requirements-peers.txt
	rm -rf .peers/pyautoattack/examples  # 45 MB of weights
	touch $@

.peers-benchmark/.done: .venv/.done requirements-peers-benchmark.txt
	rm -rf .peers-benchmark
	$(BIN)/pip install --quiet --no-deps --target .peers-benchmark --requirement requirements-peers-benchmark.txt
	touch $@

.audit/.done: requirements-audit.txt
	$(PYTHON) -m venv .audit
	.audit/bin/pip install --quiet --requirement requirements-audit.txt
	touch $@

clean:
	rm -rf .venv .peers .peers-benchmark .audit .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build docs/build
