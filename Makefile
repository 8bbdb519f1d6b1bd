# make test     everything: static checks, unit tests, and as root the tests on real hosts
# make lint     static checks alone            make unit     tests that need no hosts
# make lab      tests on real hosts, as root   make format   rewrite the sources in the common format
# make faults   every fault at every step of an apply, a change and a destroy; takes hours
# make bench    timing figures, minimum, median and maximum; the goals stand beside them
# make clean    remove what the tests keep outside the checkout
#
# PYTEST_ARGS="-k name" narrows the tests. docs/lab.md says how the lab works.

PYTHON := tests/lab/python.sh
PYTEST_ARGS ?=

# As root the whole session runs in namespaces of its own: no packet leaves, nothing is left behind.
ISOLATED := $(if $(filter 0,$(shell id -u)),-m tests.lab run python -m pytest,-m pytest)

.PHONY: test lint unit lab faults bench format setup prepare clean

# Two at a time: tests on hosts wait more than they compute. A module's tests share their hosts.
test: lint prepare
	$(PYTHON) $(ISOLATED) --numprocesses 2 --dist loadfile $(PYTEST_ARGS)

lint: setup
	$(PYTHON) -m ruff check --quiet
	$(PYTHON) -m ruff format --check --quiet
	$(PYTHON) -m mypy

unit: setup
	$(PYTHON) $(ISOLATED) -m "not lab" $(PYTEST_ARGS)

lab: prepare
	$(PYTHON) $(ISOLATED) -m lab $(PYTEST_ARGS)

faults: prepare
	HETCTL_FAULTS=all $(PYTHON) $(ISOLATED) -s --timeout=0 tests/end_to_end/test_faults.py $(PYTEST_ARGS)

format: setup
	$(PYTHON) -m ruff check --quiet --fix
	$(PYTHON) -m ruff format --quiet

setup:
	@tests/lab/setup.sh

prepare: setup
	@$(PYTHON) -m tests.lab.prepare

bench: prepare
	$(PYTHON) -m tests.lab run python -m tests.bench

clean:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/hetctl-test"
