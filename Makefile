# make demo    the main job on real input: trains a GPT eagerly and compiled, writes demo-out/
# make test    the tests
# make bench   the table of benchmarks/README.md (against torch where PEER_PYTHON has it)
# make lint    style
PYTHON ?= python3
VENV ?= .venv
PEER_PYTHON ?=
STAMP := $(VENV)/.installed

$(STAMP): pyproject.toml setup.py $(wildcard runtime/csrc/* eager/csrc/* capture/csrc/*)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[examples,test,lint]"
	touch $@

install: $(STAMP)

demo: $(STAMP)
	$(VENV)/bin/python examples/gpt.py --out demo-out

test: $(STAMP)
	$(VENV)/bin/python -m pytest tests -n 2 --dist loadfile

bench: $(STAMP)
	$(VENV)/bin/python benchmarks/run.py $(if $(PEER_PYTHON),--peer-python $(PEER_PYTHON)) --write
	$(VENV)/bin/python benchmarks/compile_time.py --write

lint: $(STAMP)
	$(VENV)/bin/ruff check .

clean:
	rm -rf $(VENV) build demo-out *.egg-info runtime/*.so eager/*.so capture/*.so

.PHONY: install demo test bench lint clean
