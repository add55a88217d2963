"""Classes that users derive from carry no name that PyTorch's do not have, but for those that begin with `_fl_`."""

import enum
import inspect

import pytest

torch = pytest.importorskip("torch")

import flambeau

OURS = "_fl_"
SPACES = ("nn", "optim", "optim.lr_scheduler", "distributions", "distributions.transforms", "utils.data", "autograd")
# (`__slotnames__` is there once an instance was copied)
OF_PYTHON = {
    "__annotations__",
    "__slots__",
    "__weakref__",
    "__dict__",
    "__module__",
    "__constants__",
    "__copy__",
    "__slotnames__",
}
# names that a class of PyTorch gives to its instances, and ours to the class; and ours that are public
KNOWN = {
    "nn.Module": {"summary"},
    "utils.data.DataLoader": {"_iterator"},
    **dict.fromkeys(
        ("nn.RNNBase", "nn.RNN", "nn.GRU", "nn.LSTM"), {"_flat_weights", "_flat_weights_names", "get_expected_cell_size"}
    ),
    **dict.fromkeys(("nn.RNNCellBase", "nn.RNNCell", "nn.GRUCell", "nn.LSTMCell"), {"mode"}),
    **{
        f"optim.{name}": {"decoupled"}
        for name in "ASGD Adadelta Adafactor Adagrad Adamax Muon NAdam RAdam RMSprop Rprop SparseAdam".split()
    },
    **{
        f"distributions.{name}": {"_param"}
        for name in "Bernoulli Binomial Categorical ContinuousBernoulli Geometric NegativeBinomial".split()
    },
    "distributions.Geometric": {"_param", "param_shape"},
    **dict.fromkeys(("distributions.HalfCauchy", "distributions.HalfNormal"), {"symmetric"}),
    **dict.fromkeys(("autograd.enable_grad", "autograd.no_grad"), {"mode"}),
    **dict.fromkeys(("autograd.detect_anomaly", "autograd.set_detect_anomaly"), {"__call__", "clone"}),  # decorators, too
    "optim.lr_scheduler.ReduceLROnPlateau": {"is_better"},
}
EVERYWHERE = {
    "summary",
    "codomain",
    "domain",
    "_parameters",
    "_generator",  # (of Module, Transform, Distribution, modes)
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
}  # (of Optimizer: annotations in PyTorch)


def found(root, path):
    for part in path.split("."):
        root = getattr(root, part)
    return root


def placeholder(kind):
    return "missing" in vars(kind) or issubclass(kind, enum.Enum)


def classes():
    for space in SPACES:
        ours, theirs = found(flambeau, space), found(torch, space)
        for name in dir(theirs):
            mine = getattr(ours, name, None)
            if inspect.isclass(getattr(theirs, name)) and inspect.isclass(mine) and not placeholder(mine):
                yield f"{space}.{name}"
    yield "Tensor"


def extra(path):
    ours, theirs = found(flambeau, path), found(torch, path)
    return {
        name
        for name in set(dir(ours)) - set(dir(theirs)) - OF_PYTHON - EVERYWHERE - KNOWN.get(path, set())
        if not name.startswith(OURS)
    }


def test_no_name_of_ours_on_classes_of_theirs():
    beyond = {path: sorted(extra(path)) for path in classes()}
    assert not {path: names for path, names in beyond.items() if names}
    assert len(beyond) > 300


def test_what_is_known_is_still_there():
    stale = [(path, name) for path, names in KNOWN.items() for name in names if name not in dir(found(flambeau, path))]
    assert not stale
