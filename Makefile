# Two commands do everything on a fresh machine: `make app` and `make test`.

PYTHON ?= python3
ENV    := .venv
BIN    := $(ENV)/bin
DATA   ?=
OUT    ?= checkpoints/scratch-de-en
PORT   ?= 8501

.PHONY: app test soak check types-js format train clean

app: $(ENV)/ready  ## open the app on the checkpoints that come with the project
	$(BIN)/streamlit run app/main.py --server.port $(PORT)

test: check  ## everything that CI runs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile  # most of a browser test is waiting

soak: $(ENV)/ready  ## the tests that take minutes: many visitors, pulled plugs, thousands of mutants
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak -s

check: $(ENV)/ready  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/oxlint app/components
	$(BIN)/ty check

types-js:  ## the scripts' types, where TypeScript is installed: npm install --global typescript
	@if command -v tsc > /dev/null; then tsc --project app/components/jsconfig.json; \
	else echo "tsc is not installed: the scripts' types were not checked"; fi

format: $(ENV)/ready  ## rewrite to the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

train: $(ENV)/ready  ## train a checkpoint again: make train OUT=folder [DATA=folder]
	$(BIN)/python -m core.train --recipe tiny --out $(OUT) $(if $(DATA),--data $(DATA))

$(ENV)/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(ENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(ENV)
