"""Small things that packages written for PyTorch rely on: trees with paths, counted operations, hooks of optimizers."""

from collections import OrderedDict, namedtuple

import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils import _pytree as trees
from flambeau.utils.flop_counter import FlopCounterMode

Pair = namedtuple("Pair", "a b")


def test_paths_of_trees():
    tree = {"x": [1, (2, 3)], "n": Pair(4, {"k": 5}), "o": OrderedDict(z=6)}
    found, spec = trees.tree_flatten_with_path(tree)
    assert [trees.keystr(path) for path, _ in found] == [
        "['x'][0]",
        "['x'][1][0]",
        "['x'][1][1]",
        "['n'].a",
        "['n'].b['k']",
        "['o']['z']",
    ]
    assert all(trees.key_get(tree, path) == leaf for path, leaf in found)
    assert trees.tree_unflatten([leaf for _, leaf in found], spec) == tree
    assert trees.tree_map_with_path(lambda path, a, b: len(path) * a + b, [1, [2]], [10, [20]]) == [11, [24]]


def test_a_class_is_registered_once():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    trees.register_pytree_node(Box, lambda box: ([box.inside], None), lambda inside, _: Box(*inside))
    assert trees.tree_map(lambda v: v + 1, Box(1)).inside == 2
    with pytest.raises(ValueError, match="already registered"):
        trees.register_pytree_node(Box, None, None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        trees.tree_flatten_with_path(Box(1))


def test_operations_are_counted():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.ConvTranspose2d(8, 4, 3, stride=2)
            self.linear = nn.Linear(4, 16)

        def forward(self, x):
            return self.linear(self.up(self.conv(x)).flatten(2).transpose(1, 2))

    net, x = Net(), fb.ones(2, 3, 8, 8, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        out = net(x)
    counts = {path: sum(found.values()) for path, found in counter.get_flop_counts().items()}
    assert counts == {"Global": 203008, "Net": 203008, "Net.conv": 55296, "Net.up": 73728, "Net.linear": 73984}
    with counter:
        out.sum().backward()
    assert counter.get_total_flops() == 406016  # PyTorch's count
    assert "convolution_weight" in counter.get_table()
    q = fb.ones(1, 2, 5, 4)
    with FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(q, q, q)
    assert counter.get_total_flops() == 2 * 2 * 5 * 5 * (4 + 4)


def test_hooks_of_optimizers():
    seen = []
    optimizer = fb.optim.SGD([fb.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    handles = [
        fb.optim.optimizer.register_optimizer_step_pre_hook(lambda *a: seen.append("before all")),
        fb.optim.optimizer.register_optimizer_step_post_hook(lambda *a: seen.append("after all")),
        optimizer.register_step_pre_hook(lambda *a: seen.append("before")),
        optimizer.register_step_post_hook(lambda *a: seen.append("after")),
    ]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen == ["before all", "before", "after", "after all"]
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: v for k, v in state.items() if k != "extra"})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert saved["extra"] == 1 and seen[-2:] == ["save", "loaded"]


def test_iterators_of_loaders_have_kinds():
    from flambeau.utils.data import DataLoader, dataloader

    loader = DataLoader([fb.ones(1)] * 4)
    assert isinstance(iter(loader), dataloader._SingleProcessDataLoaderIter) and loader._iterator is None
    busy = iter(DataLoader([fb.ones(1)] * 4, num_workers=1, persistent_workers=True))
    assert isinstance(busy, dataloader._MultiProcessingDataLoaderIter) and len(next(busy)) == 1
    busy._shutdown_workers()
    assert busy._loader._workers is None


def test_names_of_classes_and_numbers_in_full():
    assert repr(nn.MultiheadAttention(4, 2).out_proj).startswith("NonDynamicallyQuantizableLinear(in_features=4")
    assert fb._as_tensor_fullprec(0.1).item() == 0.1 and fb._as_tensor_fullprec(2**40).dtype is fb.int64
    assert fb.get_device_module("cpu") is fb.cpu
    with pytest.raises(ValueError, match="wrong"):
        fb._check_with(ValueError, False, lambda: "wrong")
    with pytest.raises(RuntimeError, match="PyTorchFileReader does not exist"):
        fb.PyTorchFileReader("f")


def test_flex_attention_gives_what_is_asked_for():
    from flambeau.nn.attention.flex_attention import AuxRequest, flex_attention

    q = fb.arange(16.0).reshape(1, 1, 4, 4) / 10
    out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True, max_scores=True))
    scores = q @ q.mT / 2
    assert fb.allclose(out, F.scaled_dot_product_attention(q, q, q))
    assert fb.allclose(aux.lse, scores.logsumexp(-1)) and fb.allclose(aux.max_scores, scores.amax(-1))
    assert flex_attention(q, q, q, return_aux=AuxRequest())[1].lse is None
    with pytest.raises(ValueError, match="return_aux"):
        flex_attention(q, q, q, return_lse=True, return_aux=AuxRequest())


def test_a_wrapper_of_an_optimizer_steps_without_hooks_of_its_own():
    weight = nn.Parameter(fb.ones(2))
    inner, seen = fb.optim.SGD([weight], lr=0.5), []

    class Wrapper(fb.optim.Optimizer):
        def __init__(self, optimizer):  # as accelerate's: the base class is never told
            self.optimizer = optimizer

        def step(self):
            self.optimizer.step()

    weight.grad = fb.ones(2)
    handle = fb.optim.optimizer.register_optimizer_step_post_hook(lambda o, *given: seen.append(o))
    Wrapper(inner).step()
    handle.remove()
    assert seen == [inner] and weight.tolist() == [0.5, 0.5]


def test_no_tensor_is_a_dtensor():
    from flambeau.distributed.tensor import DTensor

    assert not isinstance(fb.ones(1), DTensor)
    with pytest.raises(RuntimeError, match="DTensor does not exist"):
        DTensor()


def test_compiled_modules_are_known_under_dynamo():
    from flambeau._dynamo.eval_frame import OptimizedModule

    assert isinstance(fb.compile(nn.Linear(2, 2)), OptimizedModule) and not isinstance(nn.Linear(2, 2), OptimizedModule)
