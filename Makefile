# make demo    the main job on real input: trains a GPT eagerly and compiled, writes demo-out/; then four programs, timed in turn
# make test    the tests
# make quick   what matters most of them, from every layer, in two minutes
# make bench   the table of benchmarks/README.md (against torch where PEER_PYTHON has it)
# make packages  tests of packages for PyTorch, which are installed into the environment
# make test-triton  all that Triton kernels are checked by without a GPU: every record, every graph, two chips
# make lint    style and types
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
	$(VENV)/bin/python examples/gains.py

test: $(STAMP)
	$(VENV)/bin/python -m pytest tests -n 2 --dist loadgroup

QUICK := tests/test_layers.py tests/test_docs.py::test_commands_and_targets_exist tests/test_budgets.py \
	tests/runtime/test_identity.py tests/runtime/test_garbage.py tests/runtime/test_native_seconds.py \
	tests/eager/test_tensor.py tests/eager/test_autograd.py tests/eager/test_op.py tests/eager/test_nn.py tests/eager/test_optim.py \
	tests/capture/test_graph.py tests/capture/test_dynamic.py tests/capture/test_guards.py tests/capture/test_breaks.py \
	tests/capture/test_golden.py tests/capture/test_sizes_from_data.py \
	tests/inductor/test_schedule.py tests/inductor/test_loops.py tests/inductor/test_functionalize.py tests/inductor/test_partition.py \
	"tests/test_ops_compiled.py::test_compiled_equals_eager[abs-any-static]"

quick: $(STAMP)
	$(VENV)/bin/python -m pytest $(QUICK) -n 2 --dist loadgroup

bench: $(STAMP)
	$(VENV)/bin/python benchmarks/run.py $(if $(PEER_PYTHON),--peer-python $(PEER_PYTHON)) --write
	$(VENV)/bin/python benchmarks/compile_time.py --write
	$(VENV)/bin/python docs/make_readme.py

# programs of packages that were written for PyTorch; PEER_PYTHON has torch, to compare with
PACKAGES_VENV ?= $(VENV)
install-packages: $(STAMP)
	$(PACKAGES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps lightning==2.6.6 pytorch-lightning==2.6.6 \
		lightning-utilities==0.15.3 skorch==1.4.0 torchmetrics==1.9.0 einops==0.8.2 timm==1.0.31 torchvision==0.28.0 \
		transformers==5.23.0 accelerate==1.15.0
	$(PACKAGES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check scikit-learn scipy pyyaml regex tokenizers typer safetensors \
		tqdm "fsspec[http]" packaging typing-extensions huggingface-hub tabulate pillow psutil

packages: install-packages
	PEER_PYTHON=$(PEER_PYTHON) $(PACKAGES_VENV)/bin/python -m pytest tests/packages -n 2 --dist loadgroup

test-triton: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check "triton>=3.6"
	TRITON_TESTS=all $(VENV)/bin/python -m pytest tests/triton -n 2

lint: style types

style: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check --quiet .

types: $(STAMP)
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

clean:
	rm -rf $(VENV) build demo-out *.egg-info runtime/*.so eager/*.so capture/*.so

.PHONY: install demo test quick bench install-packages packages test-triton lint style types clean
