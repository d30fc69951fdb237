# One verb a target. `make demo` needs Python 3.11 or newer and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DEBIAN_PACKAGES := slurm-wlm munge hwloc debootstrap

.PHONY: help demo test deps releases lint types contracts check bench fuzz clean
FUZZ := 100000

help: ## say what each target does
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 16

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is not on PATH" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "hint: on Debian, 'apt-get install python3-venv' brings the missing module" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing placer into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.developed: pyproject.toml $(VENV)/.installed
	@echo "installing the tools for tests, lint and types into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group test --group lint --group types
	@touch $@

demo: $(VENV)/.installed ## advice for a shipped script on a shipped recorded cluster
	@echo '$$ placer place fixtures/jobs/train.sbatch --snapshot fixtures/slurm/24.11 --topo-dir fixtures/slurm/topo'
	@$(BIN)/placer place fixtures/jobs/train.sbatch --snapshot fixtures/slurm/24.11 --topo-dir fixtures/slurm/topo
	@echo
	@echo '$$ placer topo fixtures/topo/dgx-1v.txt'
	@$(BIN)/placer topo fixtures/topo/dgx-1v.txt

test: deps releases $(VENV)/.developed ## every test, the real-Slurm ones included; on Debian as root it installs what they need
	$(BIN)/python -m pytest -n 2 --dist loadgroup --ignore tests/bench

deps: ## the Debian packages that the tests start: Slurm, munge, hwloc, debootstrap
	@missing=; for p in slurmctld slurmd sbatch munged lstopo debootstrap; do command -v $$p >/dev/null 2>&1 || test -x /usr/sbin/$$p || missing="$$missing $$p"; done; \
	if test -z "$$missing"; then exit 0; fi; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing $(DEBIAN_PACKAGES)"; apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN_PACKAGES) >/dev/null; \
	else echo "not here:$$missing; the tests that need them are skipped; on Debian as root: apt-get install $(DEBIAN_PACKAGES)" >&2; fi

releases: deps ## newer releases of Slurm for the tests, kept in PLACER_TEST_CACHE=~/.cache/placer-tests (0.5 GB each)
	@$(PYTHON) tests/slurm/releases.py

lint: $(VENV)/.developed ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developed ## mypy --strict
	$(BIN)/mypy

contracts: $(VENV)/.developed ## the layers of the house
	PYTHONPATH=src $(BIN)/lint-imports

check: lint types contracts test ## all that CI runs

bench: $(VENV)/.developed ## speed and memory, as one table
	$(BIN)/python -m pytest tests/bench --benchmark-only --benchmark-columns=min,median,rounds --benchmark-sort=name -q

fuzz: $(VENV)/.developed ## every reader against FUZZ=100000 mutated inputs each
	for script in tests/fuzz/fuzz_*.py; do $(BIN)/python $$script --count $(FUZZ); done

clean: ## remove what was built
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
