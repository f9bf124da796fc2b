# `make` lists the targets. Settings, for example `make run WORKLOAD=molecules`:
#   PYTHON        interpreter of the environments; 3.11 is what is tested
#   WORKLOAD      workload of `make run`
#   RUN_NAME      experiment name of `make run`; made of workload and time
#   RUN_FLAGS     further flags of `make run`
#   PYTEST_FLAGS  further flags of pytest, for example '-k reset'
#   WORKERS       processes that the tests are dealt out to, file by file;
#                 0 for none, as --pdb needs
#   BENCH_FLAGS   flags of reset_cycles.research.costs, for example --rounds=2
#   CHAOS         how many times the suite's random cases `make chaos` takes

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach name,python3.11 python3,\
  $(shell $(name) -c 'import ensurepip' 2>/dev/null && echo $(name))) python3)
WORKLOAD ?= digits
# A name of its own for every run, so that no earlier run is overwritten.
RUN_NAME ?= $(WORKLOAD)_$(shell date +%Y%m%d_%H%M%S)
RUN_FLAGS ?=
PYTEST_FLAGS ?=
WORKERS ?= 2
BENCH_FLAGS ?=

# The stacks are named after their files in constraints/. The newest one lives
# in .venv, where the other targets find their tools, the rest in .venvs/.
OTHER_STACKS := algoperf-0.5 algoperf-main
BIN := .venv/bin

# In the order of tests/conftest.py, not by the number of a file's tests.
IN_PARALLEL = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

# The tests of the modules that are handed in to the benchmark.
CORE_TESTS := $(addprefix tests/,core engine optimizers $(addprefix test_,\
  early_switching.py rules.py schedule_params.py soft_reset.py submission.py))

# The run goes on past the target for as many steps as the thesis' three cycles
# have; the submission would go on until the budget ends.
STEPS_digits := 4200
STEPS_molecules := 3000
STEPS_translation := 1600
STEPS_text := 2400
TRAIN = $(BIN)/reset-cycles run --nostop_at_targets --rng_seed=17 \
  $(STEPS_$(1):%=--max_global_steps=%) --experiment_dir=experiment_runs

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z].*## / {printf "  %-24s %s\n", $$1, $$2}' \
	  $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: .venv/.installed ## Train WORKLOAD (digits) with the submission in force
	$(call TRAIN,$(WORKLOAD)) --workload=$(WORKLOAD) --experiment_name=$(RUN_NAME) $(RUN_FLAGS)

.PHONY: test
test: .venv/.installed ## Run all tests on the newest stack
	$(BIN)/pytest $(IN_PARALLEL) $(PYTEST_FLAGS)

.PHONY: test-all
test-all: test $(OTHER_STACKS:%=test-%) ## Run all tests on all three stacks

.PHONY: $(OTHER_STACKS:%=test-%)
$(OTHER_STACKS:%=test-%): test-%: .venvs/%/.installed
	.venvs/$*/bin/pytest $(IN_PARALLEL) $(PYTEST_FLAGS)

.PHONY: coverage
coverage: .venv/.installed ## Measure which branches of what is handed in are tested
	$(BIN)/pytest $(IN_PARALLEL) $(PYTEST_FLAGS) $(CORE_TESTS) --cov

# Listed by hand, since targets made from a pattern have no line of their own.
test-algoperf-0.5: ## Run all tests on the 2024 benchmark's stack
test-algoperf-main: ## Run all tests on the current benchmark's stack

.PHONY: test-core
test-core: .venv/.installed ## Run the core tests on the newest stack
	$(BIN)/pytest $(IN_PARALLEL) $(PYTEST_FLAGS) $(CORE_TESTS)

.PHONY: $(OTHER_STACKS:%=test-core-%)
$(OTHER_STACKS:%=test-core-%): test-core-%: .venvs/%/.installed
	.venvs/$*/bin/pytest $(IN_PARALLEL) $(PYTEST_FLAGS) $(CORE_TESTS)

test-core-algoperf-0.5: ## Run the core tests on the 2024 stack
test-core-algoperf-main: ## Run the core tests on main's stack

# Times as many random cases as `make test` has, and others every time.
CHAOS ?= 10

.PHONY: chaos
chaos: .venv/.installed ## Test far more random configurations and accidents
	CHAOS=$(CHAOS) $(BIN)/pytest $(PYTEST_FLAGS) tests/test_chaos.py tests/test_chaos_files.py tests/loop/test_optax.py

.PHONY: lint
lint: .venv/.installed types ## Check rules, formatting, types, who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python .ci/circles.py

.PHONY: types
types: .venv/.installed build/code ## Check the code's types
	$(BIN)/mypy | sed 's|^build/code/reset_cycles/||'

# The code as a package, for tools that read it without importing it: the root
# is one, but may have been cloned to a folder of any name.
FILES := git ls-files --cached --others --exclude-standard --

.PHONY: build/code
build/code:
	rm -rf $@
	mkdir -p $@/reset_cycles
	$(FILES) '*.py' py.typed ':!tests' | tar -cT - | tar -xC $@/reset_cycles

.PHONY: format
format: .venv/.installed ## Format the code and sort its imports
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

.PHONY: figures
figures: .venv/.installed ## Draw the thesis' figures from research/thesis/logs
	$(BIN)/reset-cycles figures --overwrite

.PHONY: results
results: .venv/.installed ## Measure the thesis' claims from research/thesis/logs
	$(BIN)/reset-cycles results --out=research/thesis/RESULTS.md --overwrite

# The runs of docs/: in force, which docs/reading_a_run.md explains line by line,
# and the thesis'. Beside a picture are the run's settings and what it printed:
# tests/test_figures.py fails when either is no longer that of the setting.
.PHONY: figures-readme
figures-readme: .venv/.installed ## Draw the single runs that the pages show
	$(call TRAIN,digits) --workload=digits --experiment_name=digits --overwrite \
	  2> figures/digits.txt
	$(call TRAIN,digits) --workload=digits --experiment_name=digits_thesis --overwrite \
	  --settings=thesis
	for name in digits digits_thesis; do \
	  trial=experiment_runs/$$name/digits_jax/trial_1; \
	  cp $$trial/metric.png figures/$$name.png; \
	  cp $$trial/schedule_params.json figures/$$name.json; done

.PHONY: scoreboard
scoreboard: .venv/.installed ## Write the pages that compare submissions from their logs
	$(BIN)/reset-cycles scoreboard --logs=research/board/logs \
	  --out=research/board/SCOREBOARD.md --overwrite --reading=research/board/logs/READING.txt
	$(BIN)/reset-cycles scoreboard --ablation \
	  --logs=research/board/ablation/logs,research/board/ablation/ablation_logs \
	  --out=research/board/ablation/ABLATION.md --overwrite --reading=research/board/ablation/READING.txt
	$(BIN)/reset-cycles scoreboard --logs=research/board/ablation/logs --overwrite \
	  --out=research/board/ablation/SCOREBOARD.md \
	  --reading=research/board/ablation/SCOREBOARD_READING.txt

# The menu's link to the repository, where origin is an address on the web.
REPO_URL ?= $(shell git remote get-url origin 2>/dev/null | \
  sed -nE 's!^(https://|git@)([^@/]*@)?([^:/]+)[:/](.+)$$!https://\3/\4!p' | \
  sed 's/\.git$$//')

# Where the site will be, for 404.html: at any depth it must find its style.
SITE_URL ?=

# Markdown and pictures lie in build/site_source as they do here.
.PHONY: docs
docs: .venv/.docs build/code ## Build the documents as a site, links checked
	rm -rf build/site_source
	mkdir -p build/site_source
	$(FILES) '*.md' '*.png' '*.css' '*.js' '*.ipynb' ':!tests' ':!.github' | tar -cT - | tar -xC build/site_source
	NO_MKDOCS_2_WARNING=1 REPO_URL='$(REPO_URL)' SITE_URL='$(SITE_URL)' $(BIN)/mkdocs build --quiet --strict
	test -n '$(SITE_URL)' || rm -f build/site/404.html  # it needs the address
	@echo 'Open build/site/index.html'

.PHONY: notebook
notebook: .venv/.docs ## Run docs/first_look.ipynb and keep its outputs
	$(BIN)/python .ci/notebook.py

.PHONY: docs-serve
docs-serve: docs ## Show the site at http://localhost:8000
	$(BIN)/python -m http.server --directory=build/site 8000

.PHONY: bench
bench: .venv/.installed ## Measure what the submission costs beyond bare optax
	$(BIN)/python -m reset_cycles.research.costs $(BENCH_FLAGS)

.PHONY: clean
clean: ## Remove environments, build and cache files; keep experiment_runs/
	rm -rf .venv .venvs build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip's full output goes to install.log; the end of it is shown on a failure.
define INSTALL
@echo "Installing $< into $(@D), about a minute"
@$(PYTHON) -m venv $(@D)
@$(@D)/bin/python -m pip install --disable-pip-version-check --no-input \
  --constraint $< --editable '.[mini,dev]' 2>&1 | tee $(@D)/install.log | \
  while read -r line; do \
    case $$line in \
      Collecting*|Processing*) printf '.' ;; \
      'Installing collected'*) printf ' unpacking' ;; \
    esac; \
  done || { echo; tail -n 20 $(@D)/install.log >&2; exit 1; }
@echo ' done'
@touch $@
endef

.venv/.installed: constraints/latest.txt pyproject.toml
	$(INSTALL)

# Beside the other tools: some twenty small packages.
.venv/.docs: .venv/.installed
	@echo 'Installing the tools for documents into .venv'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet \
	  --constraint constraints/latest.txt --editable '.[mini,dev,docs]'
	@touch $@

.venvs/%/.installed: constraints/%.txt pyproject.toml
	$(INSTALL)
