# Everything that is done with this checkout. Each target sets up what it needs (tools/prepare).

PYTHON ?= python3
DATA ?= data
PORT ?= 5672
PYTEST = .venv/bin/python -m pytest -n $(JOBS) --dist worksteal
JOBS ?= logical
# Tests with a broker wait much: for its start, for clients, for time to pass. So there are more of
# them at a time than cores; `tests/support/patience.py` counts the workers.
WAITING = $(if $(filter logical,$(JOBS)),$(shell expr 2 '*' `getconf _NPROCESSORS_ONLN`),$(JOBS))
PIECES = not process and not spark
# What looks at the source alone says the same of it compiled.
FORM = tests/test_tidy.py tests/test_imports.py tests/test_compiled.py
SPARK = tests/spark

export PYTHON
# Each worker of each stage would else read and rewrite all tests anew, half a minute on two cores.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run cluster build wheel test test-pure test-compiled test-package test-process \
	test-spark lint format lock rules bench long long-spark fuzz sim demo oracle oracle-random \
	oracle-http clean

help:
	@echo 'make run     build, then run a broker on port $(PORT) with its data in ./$(DATA)'
	@echo 'make cluster build, then run a cluster of three nodes with its data in ./$(DATA)-cluster'
	@echo 'make build   build Warren into .venv'
	@echo 'make wheel   leave that build in dist/, where later builds take it while it fits'
	@echo 'make test    install what the tests need and run them all, pure and compiled'
	@echo 'make lint    ruff and mypy'
	@echo 'make format  lay all code out by ruff'
	@echo 'make lock    write versions and hashes of images anew (needs uv)'
	@echo 'make rules   which rules of docs/rules.md have a passing test'
	@echo 'make long    look for faults with new, printed seeds for FOR seconds (3600)'
	@echo 'make long-spark  RUNS (100) of queues into tables on real Spark, with a fault in each'
	@echo 'make fuzz    fuzz frames and HTTP, SECONDS each (60), NODES (1 or 3), SEED, ONLY='
	@echo 'make sim     run the simulator over SEEDS seeds (1000), of one node and of clusters'
	@echo 'make bench   measure Warren beside RabbitMQ (ONLY=regex SECS=10 REPS=3 NODES=3)'
	@echo 'make demo    real orders through a queue into Spark, none lost or doubled'
	@echo 'make oracle  what RabbitMQ and Warren say to the scripts of tests/oracle (ONLY= RECORD=1)'
	@echo 'make oracle-http  where answers of the HTTP API that were recorded are stale (RECORD=1)'
	@echo 'make oracle-random  what they say to COUNT (1000) random sequences (FIRST= RECORD=1)'
	@echo 'make clean   remove what was built, the data of `make run` excepted'

run: build
	@exec .venv/bin/warren server --port $(PORT) --data-dir $(DATA)

cluster: build
	@exec .venv/bin/warren dev cluster --port $(PORT) --data-dir $(DATA)-cluster

build:
	@tools/prepare build

wheel:
	@tools/prepare wheel

# Each stage sets up what it needs when it is reached, so that the first results come soon.
test:
	@rm -rf .pytest_cache/v/warren
	@$(MAKE) --no-print-directory test-pure
	@$(MAKE) --no-print-directory test-compiled
	@$(MAKE) --no-print-directory test-package
	@$(MAKE) --no-print-directory test-process
	@$(MAKE) --no-print-directory test-spark

test-pure:
	@tools/prepare pieces
	@echo '--- the pieces, as plain Python'
	WARREN_PURE=1 $(PYTEST) -q -m '$(PIECES)' --ignore=$(SPARK)

test-compiled:
	@tools/prepare pieces
	@echo '--- the pieces, compiled'
	$(PYTEST) -q -m '$(PIECES)' --ignore=$(SPARK) $(FORM:%=--ignore=%)

test-package:
	@tools/prepare build
	@echo '--- the wheel, alone in an empty environment, and what README.md shows'
	.venv/bin/python tools/try_package.py "$$(tools/prepare path)"

test-process:
	@tools/prepare process
	@echo '--- a real broker and its clients'
	$(PYTEST) -n $(WAITING) -q -m 'process and not spark' --ignore=$(SPARK)

test-spark:
	@tools/prepare spark
	@echo '--- the pieces for Spark, as plain Python'
	WARREN_PURE=1 $(PYTEST) -q -m '$(PIECES)' $(SPARK)
	@echo '--- queues in Spark'
	$(PYTEST) -q $(SPARK)

lint:
	@tools/prepare lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy src sim tools setup.py $(wildcard bench/*.py)

format:
	@tools/prepare lint
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

lock:
	@$(PYTHON) tools/lock.py

rules:
	@$(PYTHON) tools/rules.py

long:
	@tools/prepare test
	@tools/long $(or $(FOR),3600)

# FIRST=seed has the faults of a run before.
long-spark:
	@tools/prepare spark
	WARREN_SPARK_RUNS=$(or $(RUNS),100) WARREN_SPARK_SEED=$(or $(FIRST),0) \
		.venv/bin/python -m pytest -q -s --timeout=36000 tests/spark/test_runs.py

# ONLY=frames or ONLY=http runs one of them.
fuzz:
	@tools/prepare pieces
	@for fuzzer in $(or $(ONLY),frames http); do \
		.venv/bin/python -m tests.fuzz $$fuzzer --tls --seconds $(or $(SECONDS),60) \
			--nodes $(or $(NODES),1) $(if $(SEED),--seed $(SEED)) || exit 1; done

sim:
	@tools/prepare pieces
	.venv/bin/python -m sim --seeds $(or $(SEEDS),1000)
	.venv/bin/python -m sim --cluster --operations 500 --seeds $(or $(SEEDS),1000)

bench:
	@tools/prepare pieces
	bench/measure

demo:
	@tools/prepare spark
	.venv/bin/python -m demo.run

EXCHANGES = rabbitmq_consistent_hash_exchange,rabbitmq_random_exchange
EXCHANGES := $(EXCHANGES),rabbitmq_recent_history_exchange

# RECORD=1 stores what RabbitMQ answers; else it is said where the stored answers are stale.
oracle:
	@tools/prepare process
	@PLUGINS=$(EXCHANGES) BASE=5780 bench/peer rabbit start
	@BASE=5780 bench/peer rabbit ctl 1 trace_on >/dev/null
	@.venv/bin/python tools/oracle.py $(if $(RECORD),record,stale) 127.0.0.1:5781 $(ONLY); \
	status=$$?; BASE=5780 bench/peer rabbit stop; exit $$status
	@.venv/bin/python tools/oracle.py warren $(ONLY)

# RECORD=1 stores what RabbitMQ answers over HTTP; else it is said where stored answers are stale.
oracle-http:
	@tools/prepare process
	@BASE=5780 bench/peer rabbit start
	@.venv/bin/python tools/oracle_http.py $(if $(RECORD),record,stale) 127.0.0.1:15781 5781; \
	status=$$?; BASE=5780 bench/peer rabbit stop; exit $$status

# Sequences number FIRST and on, else others each time; RECORD=1 stores what RabbitMQ answers.
oracle-random:
	@tools/prepare process
	@bench/peer tools >/dev/null || \
		{ echo 'oracle-random: skipped, no RabbitMQ 4.3 is here'; exit 0; }; \
	PLUGINS= BASE=5790 EXTRA_CONF='deprecated_features.permit.global_qos = true' \
		bench/peer rabbit start || exit 1; \
	.venv/bin/python tools/oracle_random.py 127.0.0.1:5791 --count $(or $(COUNT),1000) \
		$(if $(FIRST),--first $(FIRST)) --jobs $(if $(filter logical,$(JOBS)),4,$(JOBS)) \
		$(if $(RECORD),--record); \
	status=$$?; BASE=5790 bench/peer rabbit stop; exit $$status

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf bench/run bench/out tests/clients/js/node_modules
