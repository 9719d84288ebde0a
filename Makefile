# Every target of the repository; `make` alone lists them. PYTHON chooses the interpreter of .venv,
# ARGS reaches the tool that the target runs: make test ARGS="-k isa -x". SECONDS is the time of soak.
PYTHON ?= python3
CONFIG ?= reference
BENCH_CONFIGS ?= reference medium small nano
SECONDS ?= 600
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help check setup demo test test-all mutate formal formal-quick formal-mutants soak fuzz-operators sim lint docs bench bench-check verilog firmware size size-check

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

check: # Names every program of the machine that is missing, and the way to get it.
	@set -e; missing=; \
	for program in $(PYTHON) g++ make perl git; do \
	  command -v "$$program" >/dev/null || missing="$$missing $$program"; done; \
	if [ -n "$$missing" ]; then \
	  echo "missing:$$missing; on Debian or Ubuntu: apt install python3 python3-venv g++ make perl git" >&2; \
	  exit 1; fi; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) must be 3.11 or newer, not " \
	  + sys.version.split()[0] + "; choose another with make PYTHON=python3.12")'; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "missing: the venv module; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }

# The stamp is as new as pyproject.toml, so an unchanged environment costs nothing.
$(STAMP): pyproject.toml
	@$(MAKE) --no-print-directory check
	@echo "installing into $(VENV) (a minute or two, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 -e '.[sim,reference,litert,onnx,demo,fpga,formal,boards,uart,soc,dev]'
	@$(BIN)/python -m compileall -q host/matloom rtl/matloom_rtl # pip compiles nothing it links to.
	@touch $@

setup: $(STAMP) ## Make .venv, install everything into it, and the hooks of pre-commit into git.
	@test ! -e .git || $(BIN)/pre-commit install

demo: $(STAMP) ## Classify handwritten digits on the simulated chip.
	@$(BIN)/matloom demo $(ARGS)

# Work is stolen at the end: a core that has run out of tests takes some of the other one's.
test: $(STAMP) ## Run the fast tests (minutes).
	$(PYTEST) -q -n 2 --dist worksteal $(ARGS)

test-all: $(STAMP) ## Run all tests, the slow ones too, but for formal-mutants.
	$(PYTEST) -q -n 2 --dist worksteal -m "not proof" $(ARGS)

mutate: $(STAMP) ## Try the tests on mutants of the hardware's source (hours; goes on where it was).
	PYTHONPATH=bench $(BIN)/python -m mutation $(ARGS)

formal: $(STAMP) ## Prove what holds of every run of the hardware's units (ARGS=--quick: fewer).
	$(BIN)/python -m matloom_rtl.formal --report docs/results/formal.json $(ARGS)
	$(BIN)/python docs/tables.py

formal-quick: $(STAMP) ## Proofs of each kind for nano, of three minutes in all by docs/results/formal.json.
	$(BIN)/python -m matloom_rtl.formal nano --times docs/results/formal.json --budget 180

formal-mutants: $(STAMP) ## Try the proofs on mutants of the hardware's units.
	$(PYTEST) -q -n 2 --dist worksteal -m proof $(ARGS)

soak: $(STAMP) ## Compare chip and model on new random seeds for SECONDS; keep those that fail.
	PYTHONPATH=bench $(BIN)/python -m support.soak --seconds $(SECONDS) $(ARGS)

fuzz-operators: $(STAMP) ## Run random files of one operator as the interpreters do (ARGS="--count 200").
	cd bench && ../$(BIN)/python -m single_operators $(ARGS)

sim: $(STAMP) ## Run the cocotb regression of the generated chip.
	$(PYTEST) -m "" sim_tests $(ARGS)

lint: $(STAMP) ## Check style, format, types and spelling.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file rtl/mypy.ini --cache-dir .mypy_cache/names
	$(BIN)/codespell

docs: $(STAMP) ## Make all that is generated: pages, tables, listings, plots, drawings, C header.
	$(BIN)/python -m matloom.arch.generate
	$(BIN)/python bench/plots.py
	$(BIN)/python docs/drawings/draw.py
	$(BIN)/python docs/tables.py

bench: $(STAMP) ## Measure everything of docs/performance.md: reports, tables, plots.
	@set -e; for config in $(BENCH_CONFIGS); do $(BIN)/matloom bench --config $$config $(ARGS); done
	$(BIN)/python bench/scalesim.py
	$(BIN)/python bench/sweeps.py
	$(BIN)/python bench/networks.py
	$(BIN)/python bench/shapes.py
	$(BIN)/python bench/precision.py
	$(BIN)/python bench/plots.py
	$(BIN)/python docs/tables.py

bench-check: $(STAMP) ## Compare cycles and predictions with the committed reports.
	@status=0; for config in $(BENCH_CONFIGS); do \
	  $(BIN)/matloom bench --check --config $$config $(ARGS) || status=1; done; \
	$(BIN)/python bench/shapes.py --check || status=1; exit $$status

verilog: $(STAMP) ## Generate the chip into build/verilog (CONFIG=preset or file).
	$(BIN)/matloom generate --config $(CONFIG) -o build/verilog $(ARGS)

firmware: $(STAMP) ## Compile the driver for RISC-V and AArch64 into build/firmware.
	@$(BIN)/python -c 'import ziglang' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[firmware]'
	$(BIN)/python bench/firmware.py $(ARGS)

size-check: $(STAMP) ## Synthesise nano and small; fail where one has grown by more than 2 %.
	$(BIN)/python -m matloom_rtl.fpga.size nano small $(ARGS)

size: $(STAMP) ## Report area and clock of the chip on an ECP5-85F (CONFIG=preset or file).
	$(BIN)/matloom generate --config $(CONFIG) --fpga-report ecp5-85k -o build/size $(ARGS)
