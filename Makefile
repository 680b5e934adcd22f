# `make app` and `make test` are all you need on a fresh machine.
# Only hash-pinned wheels are installed, so no package code runs at install time.

PYTHON ?= python3
ENV    := .venv
BIN    := $(ENV)/bin
WHEELS  = $(BIN)/python -m pip install --quiet --require-hashes --no-deps --only-binary :all:
DATA   ?=
OUT    ?= checkpoints/scratch-de-en
PORT   ?= 8501
RECIPE ?= tiny
CHECKPOINTS ?=
PAGE   ?= headlight.html
NETS   ?= checkpoints/scratch-de-en checkpoints/scratch-en-de
INT8   ?=
SITE   ?= site

unexport PYTHONDONTWRITEBYTECODE  # otherwise each test process recompiles every module

.PHONY: app page site test soak check types-js format lock train clean

app: $(ENV)/ready  ## open the app, optionally with further models: make app [CHECKPOINTS="FOLDER …"]
	@$(BIN)/python -m app.serving.start --server.port $(PORT) $(CHECKPOINTS:%=--checkpoints %)

page: $(ENV)/ready  ## write the app as one HTML file: make page [PAGE=FILE] [NETS="FOLDER …"] [INT8=1]
	@$(BIN)/python -m app.export.offline $(NETS:%=--checkpoint %) $(if $(INT8),--int8) --out $(PAGE)

site: $(ENV)/ready  ## write a folder for any static host: make site [SITE=FOLDER] [NETS="FOLDER …"] [INT8=1]
	@$(BIN)/python -m app.export.site $(NETS:%=--checkpoint %) $(if $(INT8),--int8) --out $(SITE)

test: check  ## everything that CI runs
	# Three workers suit two cores: browser tests mostly wait. tests/conftest.py orders the files.
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

soak: $(ENV)/tests  ## the tests that take minutes: load and crash recovery
	$(BIN)/python -m pytest -m soak -s

check: $(ENV)/tests types-js  ## formatting, lint, types, and ceilings on code lines
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/oxlint app/components
	$(BIN)/ty check
	$(BIN)/python .ci/lines.py

types-js:  ## JavaScript types; needs TypeScript: npm install --global typescript
	@if command -v tsc > /dev/null; then tsc --project app/components/jsconfig.json; \
	else echo "tsc is not installed: JavaScript types were not checked"; fi

format: $(ENV)/tests  ## reformat, and regenerate the READMEs' file trees
	$(BIN)/python .ci/trees.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

train: $(ENV)/ready  ## train a checkpoint: make train OUT=folder [RECIPE=dates] [DATA=folder]
	$(BIN)/python -m core.train --recipe $(RECIPE) --out $(OUT) $(if $(DATA),--data $(DATA))

lock: $(ENV)/ready  ## regenerate the lock files after changing requirements; needs uv
	$(BIN)/python .ci/lock.py

# Try torch without CUDA first, if the index has it. The default build may need more packages.
$(ENV)/ready: requirements.lock requirements-cpu.lock requirements-cuda.lock pyproject.toml
	$(PYTHON) -m venv $(ENV)
	@$(WHEELS) --requirement requirements-cpu.lock 2> /dev/null || echo "torch: the default build"
	$(WHEELS) --requirement requirements.lock
	$(BIN)/python -m pip check > /dev/null || $(WHEELS) --requirement requirements-cuda.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(ENV)/tests: $(ENV)/ready tests/requirements.lock
	$(WHEELS) --requirement tests/requirements.lock
	touch $@

clean:
	rm -rf $(ENV)
