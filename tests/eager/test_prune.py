"""torch.nn.utils.prune: masks, their names, pruning again, removing, pruning over modules."""

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn.utils import prune


def layer():
    made = nn.Linear(4, 3)
    with fb.no_grad():
        made.weight.copy_(fb.arange(12.0).reshape(3, 4) - 5.0)
    return made


def test_smallest_entries_become_zero_and_stay():
    made = layer()
    prune.l1_unstructured(made, "weight", amount=3)
    assert made.weight.reshape(-1).tolist() == [-5, -4, -3, -2, 0, 0, 0, 2, 3, 4, 5, 6]
    assert [n for n, _ in made.named_parameters()] == ["bias", "weight_orig"] and prune.is_pruned(made)
    assert [n for n, _ in made.named_buffers()] == ["weight_mask"]
    optimizer = fb.optim.SGD(made.parameters(), lr=0.1)
    made(fb.ones(2, 4)).sum().backward()
    assert made.weight_orig.grad[1, 0] == 0 != made.weight_orig.grad[0, 0]
    optimizer.step()
    made(fb.ones(2, 4))
    assert made.weight[1, 0] == 0


def test_pruning_again_counts_what_is_left():
    made = layer()
    prune.l1_unstructured(made, "weight", amount=0.5)
    prune.l1_unstructured(made, "weight", amount=0.5)
    assert made.weight_mask.sum() == 3
    hook = next(iter(made._forward_pre_hooks.values()))
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2
    prune.ln_structured(made, "weight", amount=1, n=2, dim=0)
    assert made.weight_mask.sum(1).tolist()[1] == 0 and len(hook) in (2, 3)


def test_remove_makes_it_permanent():
    made = layer()
    before = made.weight
    prune.random_structured(made, "weight", amount=1, dim=1)
    prune.remove(made, "weight")
    assert made.weight is before and (made.weight == 0).all(0).sum() >= 1 and not prune.is_pruned(made)
    assert not made._forward_pre_hooks and sorted(made.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(made, "weight")


def test_over_modules_and_by_masks():
    net = nn.Sequential(layer(), nn.ReLU(), nn.Linear(3, 2))
    prune.global_unstructured([(net[0], "weight"), (net[2], "weight")], prune.L1Unstructured, amount=9)
    assert sum(int((m.weight == 0).sum()) for m in (net[0], net[2])) == 9
    assert (net[2].weight == 0).all()  # all of its entries are below one
    prune.custom_from_mask(net[0], "bias", fb.tensor([1.0, 0.0, 1.0]))
    assert net[0].bias[1] == 0
    with pytest.raises(TypeError, match="unstructured"):
        prune.global_unstructured([(net[0], "weight")], prune.LnStructured, amount=1, n=2)


@pytest.mark.parametrize("amount, error", [(-1, ValueError), (1.5, ValueError), ("a", TypeError)])
def test_amounts(amount, error):
    with pytest.raises(error):
        prune.random_unstructured(layer(), "weight", amount)


def test_compiled():
    made = layer()
    prune.l1_unstructured(made, "weight", amount=3)
    x = fb.ones(2, 4)
    assert fb.allclose(fb.compile(made, backend="eager")(x), made(x))
