# Two commands do all the set-up on a machine that has git, make and Python 3.11 or newer:
#
#     make demo     a real campaign on this machine's CPU; no account, key or GPU
#     make test     everything that must hold; pytest's summary is the last line
#
# PyPI's torch for Linux carries CUDA and weighs several GB. Without a GPU the CPU build is enough:
#
#     TORCH_INDEX=https://download.pytorch.org/whl/cpu make demo
#
# (The address is from PyTorch's installation page; no test of ours reaches it.) Another Python: PYTHON=python3.12 make demo.

.DEFAULT_GOAL := help
.PHONY: help demo test check bench forge-walk act-walk e2e clean
# Two pips in one .venv at the same time break it, so `make -j` is taken back.
.NOTPARALLEL:

# The first one that is new enough; looked for only when .venv has to be made.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install -q -c requirements.lock

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /make \1     /p' Makefile

demo: .venv/.installed-train ## six experiments on a small model, on the CPU
	@.venv/bin/autoresearch demo "/autoresearch 6"

test: .venv/.installed-dev ## all tests; ARGS="-k shape" passes options to pytest
	@.venv/bin/python -m pytest $(ARGS)

check: .venv/.installed-dev ## ruff and mypy --strict
	@.venv/bin/ruff check .
	@.venv/bin/mypy

bench: .venv/.installed-train ## every benchmark, in its short form
	@for program in benchmarks/[a-z]*.py; do \
		echo "== $$program --quick"; .venv/bin/python "$$program" --quick || exit 1; done

forge-walk: .venv/.installed-dev ## a campaign through comments, checks and pull requests, on a double of GitHub
	@.venv/bin/python -m tests.lab

act-walk: .venv/.installed-dev ## the same through our workflow files, run by act; measurements are scripted
	@.venv/bin/python -m tests.actwalk

e2e: .venv/.installed-dev ## all of it: workflows, a model, real trainings, Slack; twice, and what is left (needs npm)
	@.venv/bin/python -m tests.e2e

clean: ## takes away .venv and the caches, nothing else
	@rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.created:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
		echo "There is no Python 3.11 or newer here$(if $(PYTHON), called $(PYTHON)). Install one, or name it: PYTHON=/path/to/python3.12 make" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than 3.11. Install a newer one, or name it: PYTHON=/path/to/python3.12 make" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) lacks its venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv && touch $@

.venv/.installed-train: .venv/.created pyproject.toml requirements.lock
	@echo "Installing into .venv (minutes the first time, seconds later) ..." >&2
	@$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url $(TORCH_INDEX) torch)
	@$(PIP) -e '.[train]' && touch $@

.venv/.installed-dev: .venv/.created pyproject.toml requirements.lock
	@echo "Installing into .venv (minutes the first time, seconds later) ..." >&2
	@$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url $(TORCH_INDEX) torch)
	@$(PIP) -e '.[train,parquet,dev]' && touch $@ .venv/.installed-train
