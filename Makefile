# Two commands do everything on a fresh machine: `make app` and `make test`.
# Only wheels whose SHA-256 stands in a lock are installed: no package's code runs while that is done.

PYTHON ?= python3
ENV    := .venv
BIN    := $(ENV)/bin
WHEELS  = $(BIN)/python -m pip install --quiet --require-hashes --no-deps --only-binary :all:
DATA   ?=
OUT    ?= checkpoints/scratch-de-en
PORT   ?= 8501

.PHONY: app test soak check types-js format lock train clean

app: $(ENV)/ready  ## open the app on the checkpoints that come with the project
	@$(BIN)/python -m app.serving.start --server.port $(PORT)

test: check  ## everything that CI runs
	$(BIN)/python -m pytest -n 2 --dist loadfile  # most of a browser test is waiting

soak: $(ENV)/tests  ## the tests that take minutes: many visitors, crashes, thousands of mutants
	$(BIN)/python -m pytest -m soak -s

check: $(ENV)/tests types-js  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/oxlint app/components
	$(BIN)/ty check

types-js:  ## the scripts' types, where TypeScript is installed: npm install --global typescript
	@if command -v tsc > /dev/null; then tsc --project app/components/jsconfig.json; \
	else echo "tsc is not installed: the scripts' types were not checked"; fi

format: $(ENV)/tests  ## rewrite to the project's format, and the READMEs' file trees
	$(BIN)/python .ci/trees.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

train: $(ENV)/ready  ## train a checkpoint again: make train OUT=folder [DATA=folder]
	$(BIN)/python -m core.train --recipe tiny --out $(OUT) $(if $(DATA),--data $(DATA))

lock: $(ENV)/ready  ## pin the hashes anew after requirements have changed; needs uv
	$(BIN)/python .ci/lock.py

# First torch without CUDA, where the index has it. The usual build asks for more packages, if any.
$(ENV)/ready: requirements.lock requirements-cpu.lock requirements-cuda.lock pyproject.toml
	$(PYTHON) -m venv $(ENV)
	@$(WHEELS) --requirement requirements-cpu.lock 2> /dev/null || echo "torch: the usual build"
	$(WHEELS) --requirement requirements.lock
	$(BIN)/python -m pip check > /dev/null || $(WHEELS) --requirement requirements-cuda.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(ENV)/tests: $(ENV)/ready tests/requirements.lock
	$(WHEELS) --requirement tests/requirements.lock
	touch $@

clean:
	rm -rf $(ENV)
