# make sweep      set up, then check, time, store and report the first study
# make test       set up, then run the tests
# make test-gpu   the tests that need a GPU
# make check      format, lint, imports between packages, types and tests
# make docs       the site, in docs/_build/html; warnings are errors
# make setup      the virtual environment alone

VENV    := .venv
PYTHON  := $(VENV)/bin/python
STAMPS  := .stamps
ARGS    ?=
# Tests in parallel; JOBS=0 runs them in one process. Many tests wait for a worker, so few cores get two processes each.
JOBS    ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN) && \
	echo $$((cores < 8 ? 2 * cores : cores < 16 ? 16 : cores)) || echo auto)
# As many on one GPU: each has a context and arrays of its own there. pytest's 5 is "no test matches ARGS".
GPU_JOBS ?= 8

# The newest of the interpreters that are there and new enough.
BASE_PYTHON := $(shell for name in python3.13 python3.12 python3.11 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$name"; break; }; done)

# uv takes a tenth of the time; pip may know an index that uv does not.
UV := $(shell command -v uv)
install = $(if $(UV),"$(UV)" pip install --quiet --python $(PYTHON) $(1) || )$(PYTHON) -m pip install --quiet --disable-pip-version-check $(1)

# The CuPy extra that fits the driver: what nvidia-smi says its newest CUDA version is.
CUDA_MAJOR := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9][0-9]*\)\..*/\1/p' | head -n 1)
CUDA_EXTRA := $(if $(CUDA_MAJOR),$(if $(filter 12,$(CUDA_MAJOR)),cuda12,$(if $(filter 1 2 3 4 5 6 7 8 9 10 11,$(CUDA_MAJOR)),,cuda13)))
comma := ,

.PHONY: sweep test test-gpu check lint types docs setup setup-dev clean

sweep: setup
	$(PYTHON) -m cuprof sweep $(ARGS)

# Neighbouring tests stay in one process, which sets up once what a module shares; hundreds of Python processes are
# started, and each would compile the package again where images forbid Python to keep bytecode.
test test-gpu: export PYTHONDONTWRITEBYTECODE :=
test: setup-dev
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal -m "not gpu and not slow" $(ARGS)

test-gpu: setup-dev
	$(PYTHON) -m pytest -n $(GPU_JOBS) --dist worksteal -m "gpu and not slow and not alone" $(ARGS) || [ $$? = 5 ]
	$(PYTHON) -m pytest -m "gpu and not slow and alone" $(ARGS) || [ $$? = 5 ]

check: lint types $(if $(TESTED),,test)

lint: setup-dev
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(VENV)/bin/lint-imports --no-logo --no-cache

types: setup-dev
	$(PYTHON) -m mypy

docs: setup-dev
	$(PYTHON) -m sphinx -q -W --keep-going -b html -c docs . docs/_build/html
	@echo docs/_build/html/docs/index.html

setup: $(STAMPS)/run-$(or $(CUDA_EXTRA),cpu)
setup-dev: $(STAMPS)/dev-$(or $(CUDA_EXTRA),cpu)

$(PYTHON):
	@test -n "$(BASE_PYTHON)" || { echo "error: Python 3.11 or newer is needed: sudo apt install python3 python3-venv" >&2; exit 2; }
	@"$(BASE_PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: $(BASE_PYTHON) cannot make virtual environments: sudo apt install python3-venv" >&2; exit 2; }
	"$(BASE_PYTHON)" -m venv $(VENV)

# A stamp is older than pyproject.toml exactly when the dependencies may have changed.
$(STAMPS)/run-%: pyproject.toml | $(PYTHON)
	$(call install,-e '.[opencl$(if $(CUDA_EXTRA),$(comma)$(CUDA_EXTRA))]')
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev-%: pyproject.toml | $(PYTHON)
	$(call install,-e '.[dev$(comma)$(or $(CUDA_EXTRA),dev-nvrtc)]')
	@mkdir -p $(STAMPS) && touch $@

clean:
	rm -rf $(STAMPS) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
