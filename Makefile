# Everything a newcomer runs. `make` alone lists it; the first target makes its own .venv.
# Needed beforehand: Python 3.11 or newer with pip. PostgreSQL comes from a wheel.

PYTHON ?=
BIN := .venv/bin
READY := .venv/.ready
# Limits in seconds, so that nothing here can hang for ever.
TEST_S := 580
FAULTS_S := 1500

.PHONY: help venv demo test test-postgres15 faults bench bench-quick compare fuzz check format docs clean

help:
	@echo 'make demo         kill a worker on purpose, and see that nothing is lost or done twice'
	@echo 'make test         all tests but the faults (under 10 minutes on 2 cores)'
	@echo 'make test-postgres15   those of the store on PostgreSQL 15 (Debian), too'
	@echo 'make faults       real harm to real processes and servers (bounded to $(FAULTS_S) s)'
	@echo 'make check        ruff, mypy and the import contracts'
	@echo 'make bench        Outlast, the raw limit and the peers (over half an hour, by hand)'
	@echo 'make bench-quick  Outlast and the limit, smaller, in less than two minutes'
	@echo 'make compare      the drain test on peers, side by side (about an hour, by hand)'
	@echo 'make fuzz         ask the server everything, for MINUTES=10 (by hand)'
	@echo 'make format       let ruff put the code in order'
	@echo 'make docs         build the documentation into site/'
	@echo 'make clean        remove .venv and caches'

venv: $(READY)

$(READY): pyproject.toml tools/make_venv.sh
	@PYTHON='$(PYTHON)' sh tools/make_venv.sh .venv
	@touch $(READY)

demo: venv
	@$(BIN)/outlast demo

# Two workers, each with servers of its own. No test depends on how long something takes.
test: venv
	@$(BIN)/pytest -q -n 2 -m 'not faults and not postgres15' --session-timeout=$(TEST_S)

# The same tests of the store on Debian's PostgreSQL 15, where it is installed; CI runs them too.
test-postgres15: venv
	@$(BIN)/pytest -q -n 2 -m 'postgres15 and not faults' --session-timeout=$(TEST_S)

# Two at a time, a file on one worker: they wait more than they work, and each has its own servers.
faults: venv
	@$(BIN)/pytest -q -n 2 --dist loadfile -m faults --timeout=300 --session-timeout=$(FAULTS_S)

# Outlast and its peers, each installed into an environment of its own; by hand, alone on the machine.
compare: venv
	@$(BIN)/draintest compare --evidence comparison

# Peers are installed into environments of their own; alone on the machine. BENCH: more options.
BENCH ?=
bench: venv
	@$(BIN)/python -m bench $(BENCH)

bench-quick: venv
	@$(BIN)/python -m bench --quick $(BENCH)

# The server is asked everything that its document allows, and much that it does not; by hand.
MINUTES ?= 10
fuzz: venv
	@$(BIN)/pip install -q 'schemathesis>=4'
	@$(BIN)/python -m tools.fuzz --minutes $(MINUTES)

check: venv
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: venv
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: venv
	@$(BIN)/python -m pip install -q -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis site build dist
