# Two commands: `make demo` shows it, `make test` proves it. Both make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# 1: a kind of test that this machine cannot run is a failure instead of a skip.
REQUIRE_ALL ?= 0
# Arguments for pytest, as in `make test PYTEST="-m slurm -x"`: one process then runs what they select.
PYTEST ?=
# Without: as many processes, since tests on a cluster mostly wait; a module's tests stay in one of them.
WORKERS ?= 2
SIDE_BY_SIDE := -m "not benchmark and not alone" -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Debian suites for test-matrix, as in VERSIONS=trixie; without: those whose Slurm this machine lacks.
VERSIONS ?=

.PHONY: demo test test-matrix prepare-matrix lint bench docs clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo   a small cluster's working day on this machine: no root, no Slurm, no GPU"
	@echo "make test   every test; as root the real-Slurm ones too (installs what they need from Debian)"
	@echo "make test-matrix   the tests that depend on Slurm's version, on the Slurms of Debian's other suites (root)"
	@echo "make lint   ruff, mypy, import-linter, shellcheck"
	@echo "make bench  the benchmarks, as described in benchmarks/README.md"
	@echo "make docs   the generated documents (docs/schema.md, docs/cli.md, share/, …)"
	@echo "make clean  remove .venv and every cache"

$(VENV)/made: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "slurm-ofu needs Python 3.10 or later: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	    && sh tests/prepare.sh python3-venv; } \
	    || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/made-for-tests: $(VENV)/made
	$(BIN)/python -m pip install --quiet --editable '.[test,lint,bench]'
	@touch $@

demo: $(VENV)/made
	@$(BIN)/python -m demo.working_day

test: TOLD := OFU_TEST_REQUIRE_ALL=$(REQUIRE_ALL) OFU_TEST_RESULT=build/slurm-versions/host.json
test: $(VENV)/made-for-tests
	@sh tests/prepare.sh
ifneq ($(strip $(PYTEST)),)
	$(TOLD) $(BIN)/python -m pytest $(PYTEST)
else
	@failed=0; set -x; \
	$(TOLD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) || failed=1; \
	OFU_TEST_REQUIRE_ALL=$(REQUIRE_ALL) $(BIN)/python -m pytest -m "benchmark or alone" || failed=1; \
	exit $$failed
endif

# The chroots that test-matrix needs, without a run: it makes them itself if this was not done before.
prepare-matrix: $(VENV)/made-for-tests
	@sh tests/prepare.sh
	OFU_TEST_REQUIRE_ALL=$(REQUIRE_ALL) $(BIN)/python -m tests.matrix --prepare

test-matrix: $(VENV)/made-for-tests
	@sh tests/prepare.sh
	OFU_TEST_REQUIRE_ALL=$(REQUIRE_ALL) $(BIN)/python -m tests.matrix --versions='$(VERSIONS)' --pytest='$(PYTEST)'

lint: $(VENV)/made-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@sh tests/prepare.sh shellcheck
	@if command -v shellcheck >/dev/null; then shellcheck prolog/* epilog/* tests/prepare.sh .ci/run; \
	    elif [ "$(REQUIRE_ALL)" = 1 ]; then echo "shellcheck is missing"; exit 1; \
	    else echo "shellcheck is missing: the hooks were not checked"; fi

bench: $(VENV)/made-for-tests
	@sh tests/prepare.sh
	$(BIN)/python -m benchmarks

docs: $(VENV)/made-for-tests
	$(BIN)/python -m slurm_ofu.store.describe > docs/schema.md
	$(BIN)/python -m slurm_ofu.cli.describe > docs/cli.md
	$(BIN)/python -m tests.cli.shell_files
	$(BIN)/python -m tests.integrals.coverage > docs/error-bars.md
	$(BIN)/python -m tests.integrals.scenarios > docs/scenarios.md
	$(BIN)/python -m tests.audits.cases > docs/findings.md

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
