# make help lists what there is. Everything happens in .venv; nothing needs to be installed or activated first.

SHELL := /bin/bash
PYTHON := .venv/bin/python
# Two more workers than cores: most tests wait for processes of their own.
JOBS ?= $(shell expr $$(nproc) + 2)
# Lanes are handed out in the order that tests/conftest.py gives them: the longest first.
PYTEST := $(PYTHON) -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder
FAST := $(wildcard tests/unit tests/contract)
GENERATORS := $(sort $(patsubst tools/%.py,tools.%,$(wildcard tools/make_*_docs.py)))

# Some machines forbid bytecode for all Pythons: then each of the many processes of a job or a test compiles anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lint check test thorough coverage demo demo-serve demo-page imagenet gpt ships bench bench-recover bench-logs bench-api bench-queue bench-metrics bench-staging bench-sweep bench-loading bench-lowband bench-predict bench-page bench-scale bench-environment fuzz stability chaos faults hangs failures matrix docs clean

help: ## Shows this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## Makes .venv with everything in it; quick when nothing changed
	@tools/setup.sh

# The page's own tests and the check of its built files need its packages: without npm, or its registry, they are skipped.
page/node_modules: page/package-lock.json
	@if command -v npm >/dev/null; then npm ci --prefix page --no-audit --no-fund --loglevel=error && touch $@; fi || true

# Every step runs, whatever became of the one before: one run tells everything.
lint: setup page/node_modules ## Style, types, walls between the rooms, generated pages
	@status=0; run() { echo "$$*"; "$$@" || status=1; }; \
	run $(PYTHON) -m ruff check .; \
	run $(PYTHON) -m ruff format --check .; \
	run .venv/bin/basedpyright; \
	run .venv/bin/lint-imports --no-logo; \
	for generator in $(GENERATORS); do run $(PYTHON) -m $$generator --check; done; \
	exit $$status

# The type checker keeps one core busy: lint runs beside the tests, and its words come after theirs.
check: setup ## The fast loop: lint, unit tests, and contract tests that need no servers of stores
	@status=0; said=$$(mktemp); $(MAKE) --no-print-directory lint >$$said 2>&1 & lint=$$!; \
	$(PYTEST) -q -m "not (servers or real or thorough)" $(FAST) || status=$$?; \
	wait $$lint || status=$$?; cat $$said; rm -f $$said; exit $$status

# The tests run even when lint has failed; its failure still counts. What they need of package registries comes beside it,
# and one process compiles all tests: else each worker would compile them for itself.
test: setup page/node_modules ## Lint and every test that isn't marked thorough; pytest's closing line comes last
	@status=0; { $(PYTHON) -m tools.kept_programs; $(PYTHON) -m pytest -q --collect-only >/dev/null; } & preparing=$$!; \
	$(MAKE) --no-print-directory lint || status=$$?; wait $$preparing; \
	$(PYTEST) $(OPTIONS) || status=$$?; \
	exit $$status

thorough: setup page/node_modules ## Every test: every fault at every point, every launcher, recipe and kind of failure; hours (PART=2/5 for a fifth)
	@$(PYTHON) -m tools.kept_programs thorough
	TESTS_THOROUGH=1 TESTS_PART=$(or $(PART),1/1) $(PYTEST) $(OPTIONS)

coverage: setup ## Which lines the unit and contract tests run
	@rm -f .coverage .coverage.*
	$(PYTHON) -m coverage run -m pytest -q $(FAST)
	$(PYTHON) -m coverage combine -q
	$(PYTHON) -m coverage report

demo: setup ## The main job: trains on 2 nodes × 2 ranks, live (DATA=folder for Fashion-MNIST's own files; ENGINE=netlab, ssh, slurm, slurm-cloud, kubernetes or ray, NODES=3)
	@ENGINE=$(or $(ENGINE),local) NODES=$(or $(NODES),2) tools/demo.sh $(if $(DATA),"$(DATA)")

demo-serve: setup ## From a training job to an endpoint with two replicas, one of which is killed under load; draws the requests (KEEP=yes leaves the endpoint)
	$(PYTHON) -m tools.demo_serve

demo-page: setup ## The web page with 40 jobs of every kind on a server of their own: prints a link, stays until Ctrl-C
	$(PYTHON) -m tools.demo_page

imagenet: setup ## ResNet-50 on a small set of JPEG files, on 2 nodes: some minutes; ends with its accuracy and where the model is
	$(PYTHON) -m tools.imagenet

gpt: setup ## A small GPT as 2 pipeline stages × 2 data shards, on text of its own (MESH='{fsdp: 2, tp: 2}' for another division)
	@tools/gpt.sh $(if $(MESH),"$(MESH)")

ships: setup ## The ship recipe, small: tiles, a sweep of classifiers, a U-Net (DATA=folder for the Airbus data)
	@tools/ships.sh $(if $(DATA),"$(DATA)")

bench: setup ## Start-up times beside bare torchrun; writes docs/bench/start.md
	$(PYTHON) -m bench.start --write docs/bench/start.md

bench-recover: setup ## From kill -9 of a rank to the next step: warm, cold, torchrun; writes docs/bench/recover.md
	$(PYTHON) -m bench.recover --write docs/bench/recover.md

bench-logs: setup ## Logs: cost, speed, latency, memory; writes docs/bench/logs.md
	$(PYTHON) -m bench.logs --gigabyte --write docs/bench/logs.md

bench-api: setup ## The API under load (SECONDS=600 for memory over ten minutes); writes docs/bench/api.md
	$(PYTHON) -m bench.api --seconds $(or $(SECONDS),60) --write docs/bench/api.md

bench-queue: setup ## 10,000 jobs that wait for 1,000 machines: one placement; lists of 100,000 ended jobs; writes docs/bench/queue.md
	$(PYTHON) -m bench.long_queue --write docs/bench/queue.md

bench-metrics: setup ## Points per second and curves beside a real MLflow server; writes docs/bench/metrics.md
	$(PYTHON) -m bench.metrics --write docs/bench/metrics.md

bench-page: setup ## The web page in Chromium: 10,000 jobs, 1,000 trials, curves of a million points, live data; writes docs/bench/page.md
	$(PYTHON) -m bench.page --write docs/bench/page.md

bench-staging: setup ## Inputs from a store: one node beside fsspec, rclone and the stores' own tools, four that pass pieces on (root); writes docs/bench/staging.md
	$(PYTHON) -m bench.staging --write docs/bench/staging.md

bench-scale: setup ## Gangs of many nodes: CPU, time, memory and bytes by the number of nodes, beside torch's rendezvous (NODES="64 256 1024 4096"); writes docs/bench/scale.md
	$(PYTHON) -m bench.scale --nodes $(or $(NODES),64 256 1024 4096) --write docs/bench/scale.md

bench-environment: setup ## An environment made by one node and taken over by others, each with caches of its own (root); writes docs/bench/environment.md
	$(PYTHON) -m bench.environment --write docs/bench/environment.md

bench-sweep: setup ## What a trial of a sweep costs, beside Optuna and Ray Tune; writes docs/bench/sweep.md
	$(PYTHON) -m bench.sweep --write docs/bench/sweep.md

bench-loading: setup ## JPEG files to pixels by one core: Pillow, simplejpeg, torchvision, litdata, webdataset; writes docs/bench/loading.md
	$(PYTHON) -m bench.loading --write docs/bench/loading.md

bench-predict: setup ## Predicted efficiency beside runs at three bandwidths (root); writes docs/bench/predict.md
	$(PYTHON) -m bench.predict --write docs/bench/predict.md

bench-lowband: setup ## Rare and small updates on a link of 200 Mbit/s beside stock DDP: bytes, speed, loss (root); writes docs/bench/lowband.md
	$(PYTHON) -m bench.lowband --write docs/bench/lowband.md

fuzz: setup ## Hostile input for the API, the YAML reader and the path checks, for FUZZ_S seconds each (60); EXAMPLES of each property (2000)
	DRUMBEAT_FUZZ_S=$(or $(FUZZ_S),60) TESTS_EXAMPLES=$(or $(EXAMPLES),2000) $(PYTEST) -q tests/fuzz tests/unit/jobfile/test_spec_fuzz.py

stability: setup ## The suite again and again, each run noted in docs/stability.md (PART=real or whole, RUNS=30, UNTIL=05:10, STALLED=yes)
	$(PYTHON) -m tools.stability --part $(or $(PART),real) --runs $(or $(RUNS),30) --jobs $(JOBS) $(if $(UNTIL),--until $(UNTIL)) $(if $(STALLED),--stalled)

faults: setup ## Every fault to drumbeat and to torchrun, loss curves after each, labelled incidents; writes docs/faults.md; ONLY="words", CURVES="on slurm" play some
	$(PYTHON) -m tools.faults --write docs/faults.md $(if $(ONLY),--only "$(ONLY)") $(if $(CURVES),--curves "$(CURVES)")

hangs: setup ## The labelled set of hangs and of silences that are none; writes docs/hang-set.md and facts for unit tests
	$(PYTHON) -m tools.hangs

failures: setup ## Every launcher's failures on every engine, and what is told of them (root); writes docs/failures.md
	$(PYTHON) -m tools.failures --write docs/failures.md

chaos: setup ## Faults at random instants, with real processes, disks and links (root): SEEDS of them (60, some 10 minutes); SEED=n plays one again; ENGINE=netlab, slurm
	$(PYTHON) -m tools.chaos --seeds $(or $(SEEDS),60) $(if $(SEED),--seed $(SEED)) --engine $(or $(ENGINE),local)

matrix: setup ## Every launcher on every engine with 1, 2 and 3 nodes, really trained (root); writes docs/matrix.md
	$(PYTHON) -m tools.matrix --write docs/matrix.md

docs: setup ## Writes the generated pages anew
	@for generator in $(GENERATORS); do echo "$(PYTHON) -m $$generator"; $(PYTHON) -m $$generator || exit; done

.PHONY: bench-preempt
bench-preempt: setup ## Seconds of work lost per preemption on a real Slurm (root); writes docs/bench/preempt.md
	$(PYTHON) -m bench.preempt --write docs/bench/preempt.md

.PHONY: bench-serve
bench-serve: setup ## A scored request: CPU and latency beside Azure's, MLflow's and other servers, the router beside HAProxy (apt: wrk, haproxy); writes docs/bench/serve.md
	$(PYTHON) -m bench.serve --write docs/bench/serve.md

clean: ## Removes what the tools left behind, .venv too
	rm -rf .venv .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* dist demo
	find src tests tools recipes bench -name __pycache__ -type d -prune -exec rm -rf {} +
