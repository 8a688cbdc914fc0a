# Everything is installed into .venv and frontend/node_modules; nothing outside this folder changes, but for Chromium,
# which `make test` takes from the system's packages when none is found.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
NODE_MODULES := frontend/node_modules/.package-lock.json
NPM := $(BIN)/python $(CURDIR)/build_backend/node.py npm
PROTOC := .cache/protoc/bin/python
LOGDIR ?= runs/demo
PORT ?= 6006

# Several test processes on few cores: one thread each is faster than many that wait for each other.
export OMP_NUM_THREADS ?= 1

.PHONY: help test test-python test-frontend stress matrix lint format demo proto record-format docs screenshots release-check \
	deployments lock chromium clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- what the targets need

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.locked: requirements-dev.lock | $(BIN)/python
	@echo "Installing PyTorch, TensorBoard and the other pinned packages into $(VENV): a few minutes the first time"
	$(BIN)/pip install --quiet -r requirements-dev.lock
	@touch $@

# pyproject.toml holds the entry points that TensorBoard finds the tabs by.
$(VENV)/.installed: pyproject.toml setup.py $(VENV)/.locked
	TBPS_SKIP_FRONTEND=1 $(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# The machine's Node.js when it is recent enough, else one of Python's packages.
$(VENV)/.node: build_backend/node.py | $(BIN)/python
	@wanted=$$($(BIN)/python $< requirement) && { [ -z "$$wanted" ] || $(BIN)/pip install --quiet "$$wanted"; }
	@touch $@

$(NODE_MODULES): frontend/package-lock.json $(VENV)/.node
	cd frontend && $(NPM) ci --include=dev --ignore-scripts --no-audit --no-fund
	@touch $@

# The build decides by itself whether the built frontend is current.
.PHONY: frontend
frontend: $(VENV)/.installed $(VENV)/.node
	$(BIN)/python setup.py --quiet build_frontend

# A place of its own: this protoc needs an older protobuf than TensorBoard.
$(PROTOC):
	$(PYTHON) -m venv .cache/protoc
	.cache/protoc/bin/pip install --quiet grpcio-tools==1.62.3 'setuptools<82'

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		echo "No Chromium found: installing the system's package"; \
		run=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$run apt-get update -qq && \
		$$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-liberation >/dev/null; }

# ---- checks

test: lint test-frontend test-python ## everything: linters, type checkers, frontend tests, Python tests, browser tests

lint: $(VENV)/.installed $(NODE_MODULES) ## ruff, mypy, Biome, tsc
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd frontend && $(NPM) run --silent check

format: $(VENV)/.installed $(NODE_MODULES) ## let ruff and Biome rewrite what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd frontend && $(NPM) run --silent format

test-frontend: $(NODE_MODULES) ## the frontend's unit tests
	cd frontend && $(NPM) test --silent

test-python: frontend $(NODE_MODULES) $(PROTOC) chromium ## Python's unit tests, then real TensorBoards in Chromium
	$(BIN)/python -m pytest -n 2 --dist loadfile --timeout 600 --timeout-method signal $(PYTEST_ARGS)

stress: $(VENV)/.installed ## fuzzed records, killed trainings, many viewers (long; figures are printed)
	$(BIN)/python -m pytest -q -s tests/stress/stress_*.py

matrix: frontend ## every supported TensorBoard, Python and protobuf; writes docs/compatibility.md
	$(BIN)/python -m tests.matrix

.cache/deployments/.installed: pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv .cache/deployments
	TBPS_SKIP_FRONTEND=1 .cache/deployments/bin/pip install --quiet -c requirements-dev.lock -e '.[torch,deployments]'
	@touch $@

deployments: .cache/deployments/.installed ## an object store that speaks S3, a real Jupyter kernel, JupyterLab's proxy
	.cache/deployments/bin/python -m pytest -q tests/deployments/deployment_*.py

# ---- what one looks at

demo: frontend ## train a small teacher and student, then show them in TensorBoard
	@$(BIN)/python examples/demo.py --logdir $(LOGDIR) --port $(PORT)

screenshots: frontend chromium ## take the pictures of docs/images again
	$(BIN)/python docs/make_screenshots.py

# ---- what others read and install

# Places of their own: what writes the site and what checks a release is nothing that the tests need.
.cache/docs/.installed: pyproject.toml
	$(PYTHON) -m venv .cache/docs
	TBPS_SKIP_FRONTEND=1 .cache/docs/bin/pip install --quiet -e '.[docs]'
	@touch $@

docs: .cache/docs/.installed ## the documentation as a site, into build/site; a broken link or docstring fails
	.cache/docs/bin/mkdocs build --quiet --strict
	@echo "build/site/index.html"

.cache/release-tools/.installed: pyproject.toml
	$(PYTHON) -m venv .cache/release-tools
	TBPS_SKIP_FRONTEND=1 .cache/release-tools/bin/pip install --quiet -e '.[release]'
	@touch $@

release-check: .cache/release-tools/.installed ## build sdist and wheel, let the tools of PyPI judge them, install without network
	.cache/release-tools/bin/python -m tests.release

# ---- what is generated and committed

proto: $(VENV)/.installed $(PROTOC) $(NODE_MODULES) ## regenerate the Python and TypeScript code of the schema
	$(PROTOC) -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. proto/tb_plugin_structure/v1/*.proto
	cd frontend && PATH="$(CURDIR)/.cache/protoc/bin:$$PATH" $(NPM) run --silent proto

record-format: $(VENV)/.installed ## regenerate docs/record_format.md
	$(BIN)/python docs/make_record_format.py

lock: ## pin the newest releases that fit (needs Python 3.11)
	rm -rf .cache/lock
	python3.11 -m venv .cache/lock
	.cache/lock/bin/pip install --quiet --upgrade pip
	TBPS_SKIP_FRONTEND=1 .cache/lock/bin/pip install --quiet torch==2.13.0 'setuptools>=77' '.[torch,fast,dev]'
	( sed '/^[^#]/,$$d' requirements-dev.lock; .cache/lock/bin/pip freeze --all --local | \
		sed -E '/^(pip|tensorboard-plugin-structure)\b/d; s/\+cpu$$//' ) > .cache/requirements-dev.lock
	mv .cache/requirements-dev.lock requirements-dev.lock

clean: ## remove everything that was installed or built here
	rm -rf $(VENV) .cache build dist *.egg-info runs frontend/node_modules tb_plugin_structure/static
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
