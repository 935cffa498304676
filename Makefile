# Every target sets up what it needs by itself and may be run again at any time.
#
#   make demo        the sample case -> the verdict (no root, no GPU, no compiler)
#   make test        all gates and tests; as root on Debian also the live eBPF ones
#   make lint        the gates that are no tests
#   make bench       benchmark tables, beside the numbers to reach
#   make lab         the fast fault-injection scenarios, live (root)
#   make lab-full    every scenario, live (root), and the tests that take too long for `make test`
#   make samples     record the sample cases again (root)
#   make notebook    the notebooks on the sample, in JupyterLab (no network)
#   make picture     draw the README's pictures again
#   make pages       run the notebooks on the sample again, for the pages to read
#   make bpf         compile the CO-RE objects of the recorder (clang)
#   make capture     the recorder in one file, its hash and bill of materials (clang)
#   make wheelhouse  one archive for a laptop that is offline too
#   make wheelhouse-check  install that archive inside the trip-wire and run the demo

SHELL  := /bin/bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

.PHONY: demo test lint bench lab lab-full samples bpf capture host notebook picture pages wheelhouse wheelhouse-check clean

demo: $(VENV)/.core
	@$(BIN)/coldtrace demo

# What records live needs a machine to itself and comes last; the rest shares its cores.
test: host $(VENV)/.dev bpf
	@.ci/gates
	@$(BIN)/python -m pytest -m "not bpf and not long" --numprocesses auto --dist loadfile --cov
	@$(BIN)/python -m pytest -m "bpf and not long"

lint: $(VENV)/.dev
	@.ci/gates

bench: host $(VENV)/.dev bpf
	@$(BIN)/python -m tests.bench

lab: host $(VENV)/.dev bpf
	@$(BIN)/python -m pytest tests/lab $(PYTEST_ARGS)

lab-full: host $(VENV)/.dev bpf
	@$(BIN)/python -m pytest -m long
	@$(BIN)/python -m tests.lab.scoreboard

samples: host $(VENV)/.dev bpf
	@$(BIN)/python -m tests.lab.make_samples

notebook: $(VENV)/.notebook
	@$(BIN)/coldtrace demo >/dev/null
	@$(BIN)/coldtrace notebook coldtrace-demo/case.duckdb

pages: $(VENV)/.dev
	@$(BIN)/python -m tests.notebook.make_pages

picture: host $(VENV)/.dev
	@$(BIN)/coldtrace demo >/dev/null
	@$(BIN)/python -m workbench.charts.picture coldtrace-demo/case.duckdb lateness samples/late-rank.png
	@$(BIN)/python -m tests.workbench.make_report_picture coldtrace-demo/report.html samples/report.png
	@$(BIN)/python -m tests.notebook.make_screenshot samples/notebook.png

# Objects are compiled ahead of time where clang is; elsewhere the bcc loader still works.
bpf:
	@if command -v clang-14 clang >/dev/null 2>&1; then $(MAKE) --silent -C capture/bpf; \
	else echo "coldtrace: note: no clang here: CO-RE objects are not built" >&2; fi

capture:
	@$(PYTHON) .ci/capture/build.py

host:
	@.ci/prepare-host

wheelhouse: $(VENV)/.dev bpf
	@.ci/wheelhouse/build $(BIN)/python

wheelhouse-check: $(VENV)/.dev
	@$(BIN)/python -m tests.offline.check_wheelhouse dist/coldtrace-*.tar

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "coldtrace: error: $(PYTHON) is older than Python 3.11" >&2; \
	      echo "coldtrace: hint: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "coldtrace: note: setting up $(VENV) (once, about a minute)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade pip
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.notebook: $(VENV)/.core
	@$(PIP) install --editable '.[notebook]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(PIP) install --editable '.[notebook]' --group dev
	@touch $@

clean:
	rm -rf $(VENV) dist tests/lab/build capture/bpf/*.bpf.o
