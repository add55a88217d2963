"""Modules: registration, state, hooks, containers, texts; layers and losses against literal values of PyTorch."""

import copy
import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from flambeau.eager import api as torch
from flambeau.eager import nn
from flambeau.eager.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def test_state_dict_keys_come_in_pytorch_s_order():
    net = Net()
    assert list(net.state_dict()) == ["scale", "steps", "first.weight", "first.bias", "second.1.weight"]
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "second.1.weight"]
    assert [n for n, _ in net.named_buffers()] == ["steps", "hidden"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert net.state_dict()._metadata["first"] == {"version": 1}


def test_state_dict_shares_memory_and_loads_back():
    net, other = Net(), Net()
    state = net.state_dict()
    state["scale"].fill_(7.0)
    assert net.scale.item() == 7.0 and not state["scale"].requires_grad
    result = other.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>" and other.scale.item() == 7.0
    assert other.scale is not net.scale and other.scale.requires_grad


def test_load_state_dict_names_every_wrong_key_and_shape():
    net = Net()
    state = net.state_dict()
    del state["scale"], state["first.bias"]
    state["extra"], state["first.weight"] = torch.ones(1), torch.ones(3, 3)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert str(error.value) == (
        'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "scale", "first.bias". \n\t'
        'Unexpected key(s) in state_dict: "extra". \n\tsize mismatch for first.weight: copying a param with shape '
        "torch.Size([3, 3]) from checkpoint, the shape in current model is torch.Size([3, 2])."
    )
    del state["first.weight"]
    missing, unexpected = net.load_state_dict(state, strict=False)
    assert missing == ["scale", "first.weight", "first.bias"] and unexpected == ["extra"]


def test_load_with_assign_takes_the_tensors_themselves():
    net = nn.Linear(2, 2)
    state = OrderedDict(weight=torch.ones(2, 2), bias=torch.zeros(2))
    net.load_state_dict(state, assign=True)
    state["weight"].fill_(5.0)
    assert isinstance(net.weight, nn.Parameter) and net.weight[0, 0].item() == 5.0


def test_shared_parameters_are_listed_once_and_saved_twice():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 1 and list(net.state_dict()) == ["0.weight", "1.weight"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 2
    twin = copy.deepcopy(net)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not net[0].weight
    assert net.double()[1].weight is net[0].weight and net[0].weight.dtype is torch.float64


def test_attributes_route_and_refuse():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'flambeau.eager.tensor.Tensor' as parameter 'scale'"):
        net.scale = torch.ones(1)
    net.steps = torch.ones(3)
    assert net._buffers["steps"].shape == (3,)
    net.scale = None
    assert net.scale is None and "scale" not in net.state_dict()
    net.first = nn.Identity()
    assert "first.weight" not in net.state_dict()
    del net.second
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'second'"):
        net.second
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_buffer("forward", None)

    class Early(nn.Module):
        def __init__(self):
            self.child = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="cannot assign module before Module.__init__\\(\\) call"):
        Early()
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'w'"):
        p = nn.Parameter(torch.ones(1))
        p._grad_fn = (p * 2).grad_fn
        nn.Linear(1, 1).register_parameter("w", p)


def test_every_module_has_a_fresh_dictionary():
    class Odd(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

    m = Odd(3)
    assert vars(m) is m.__dict__ and m.__dict__["size"] == 3 and m.training


def test_forward_hooks_see_and_replace():
    net, seen = nn.Linear(1, 1, bias=False), []
    net.weight.data.fill_(2.0)
    before = net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    after = net.register_forward_hook(lambda m, args, out: seen.append((args[0].item(), out.item())) or out * 10)
    assert net(torch.ones(1, 1)).item() == 40.0 and seen == [(2.0, 4.0)]
    before.remove(), after.remove()
    assert net(torch.ones(1, 1)).item() == 2.0
    with_kw = net.register_forward_pre_hook(lambda m, args, kw: (args, {"input": kw["input"] * 3}), with_kwargs=True)
    assert net(input=torch.ones(1, 1)).item() == 6.0
    with_kw.remove()
    first = net.register_forward_hook(lambda m, a, o: seen.append("late"))
    net.register_forward_hook(lambda m, a, o: seen.append("early"), prepend=True)
    net(torch.ones(1, 1))
    assert seen[-2:] == ["early", "late"]
    first.remove()


def test_always_called_hooks_run_after_an_error():
    class Bad(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    seen, net = [], Bad()
    net.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
    with pytest.raises(ValueError, match="no"):
        net(torch.ones(1))
    assert seen == [None]


def test_full_backward_hooks():
    net, seen = nn.Linear(2, 1, bias=False), []
    net.weight.data.copy_(torch.tensor([[2.0, 3.0]]))
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())) or (gi[0] * 10,))
    x = torch.ones(1, 2, requires_grad=True)
    (net(x) * 5).sum().backward()
    assert seen == [([[10.0, 15.0]], [[5.0]])] and x.grad.tolist() == [[100.0, 150.0]]


def test_containers():
    blocks = nn.ModuleList([nn.Linear(1, 1)])
    blocks.append(nn.ReLU()).extend([nn.Tanh(), nn.GELU()])
    blocks.insert(1, nn.Identity())
    assert [type(m).__name__ for m in blocks] == ["Linear", "Identity", "ReLU", "Tanh", "GELU"]
    assert isinstance(blocks[-1], nn.GELU) and isinstance(blocks[1:3], nn.ModuleList) and len(blocks[1:3]) == 2
    del blocks[1]
    assert list(blocks._modules) == ["0", "1", "2", "3"]
    assert [type(m).__name__ for m in nn.Sequential(nn.ReLU(), nn.Tanh()) + nn.Sequential(nn.GELU())] == ["ReLU", "Tanh", "GELU"]
    named = nn.Sequential(OrderedDict(a=nn.Linear(1, 2), b=nn.ReLU()))
    assert isinstance(named.b, nn.ReLU) and list(named.state_dict()) == ["a.weight", "a.bias"]
    table = nn.ModuleDict({"x": nn.ReLU()})
    table["y"] = nn.Linear(1, 1)
    assert (
        list(table.keys()) == ["x", "y"] and "y" in table and len(table) == 2 and table.pop("x") is not None and len(table) == 1
    )
    weights = nn.ParameterList([torch.ones(1), nn.Parameter(torch.zeros(2))])
    assert all(isinstance(p, nn.Parameter) for p in weights) and list(weights.state_dict()) == ["0", "1"]
    assert list(nn.ParameterDict({"w": torch.ones(1)}).state_dict()) == ["w"]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        blocks[9]


def test_repr():
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1))) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): Dropout(p=0.1, inplace=False)\n)"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"


def test_train_eval_apply_requires_grad():
    net, seen = Net(), []
    net.eval()
    assert not any(m.training for m in net.modules())
    net.train()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net and seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)


def test_to_keeps_parameters_and_converts_only_floats():
    net = nn.Linear(2, 2)
    net.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    weight = net.weight
    assert (
        net.to(torch.float64) is net and net.weight is weight and weight.dtype is torch.float64 and net.count.dtype is torch.int64
    )
    net(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    net.float()
    assert weight.grad.dtype is torch.float32
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes"):
        net.to(torch.int64)


def test_deepcopy_and_pickle():
    net = Net()
    net.first.weight.data.fill_(3.0)
    for twin in (copy.deepcopy(net), pickle.load(io.BytesIO(pickle.dumps(net)))):
        assert twin.first.weight is not net.first.weight and isinstance(twin.first.weight, nn.Parameter)
        assert torch.equal(twin.first.weight, net.first.weight) and twin.first.weight.requires_grad
        assert list(twin.state_dict()) == list(net.state_dict())
        x = torch.ones(1, 2)
        assert torch.equal(twin(x), net(x))


def test_zero_grad():
    net = nn.Linear(1, 1)
    net(torch.ones(1, 1)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.item() == 0.0
    net.zero_grad()
    assert net.weight.grad is None


# -- layers


def test_linear_initial_values_are_bounded():
    torch.manual_seed(0)
    layer = nn.Linear(100, 50)
    assert layer.weight.abs().max().item() <= 0.1 and layer.weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.05)
    assert layer.bias.abs().max().item() <= 0.1


def test_embedding_padding():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.weight[3].tolist() == [0.0, 0.0] and layer.padding_idx == 3
    layer(torch.tensor([0, 3, 0])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(IndexError, match="index out of range in self"):
        layer(torch.tensor([4]))


def test_layer_norm_values():
    layer = nn.LayerNorm(4)
    out = layer(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    np.testing.assert_allclose(out.detach().numpy(), [[-1.3416355, -0.4472118, 0.4472118, 1.3416355]], rtol=1e-6)
    with pytest.raises(
        RuntimeError, match=r"Given normalized_shape=\[4\], expected input with shape \[\*, 4\], but got input of size\[2, 3\]"
    ):
        layer(torch.ones(2, 3))


def test_dropout():
    layer = nn.Dropout(0.25)
    torch.manual_seed(1)
    x = torch.ones(1000, requires_grad=True)
    y = layer(x)
    kept = (y != 0).float().mean().item()
    assert 0.7 < kept < 0.8 and np.unique(y.detach().numpy()).tolist() == [0.0, np.float32(1 / 0.75).item()]
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    torch.manual_seed(1)
    assert torch.equal(layer(torch.ones(1000)), y.detach())
    layer.eval()
    assert layer(x) is x
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        nn.Dropout(1.5)


@pytest.mark.parametrize(
    "function, expected",
    [
        (F.relu, [0.0, 0.0, 1.0]),
        (F.gelu, [-0.04550027, 0.0, 0.8413447]),
        (F.silu, [-0.23840584, 0.0, 0.7310586]),
        (lambda x: F.gelu(x, approximate="tanh"), [-0.04540235, 0.0, 0.841192]),
        (F.elu, [-0.86466473, 0.0, 1.0]),
        (F.softsign, [-0.6666667, 0.0, 0.5]),
        (F.leaky_relu, [-0.02, 0.0, 1.0]),
        (F.softplus, [0.12692805, 0.6931472, 1.3132616]),
        (F.hardswish, [-0.33333334, 0.0, 0.6666667]),
        (F.hardsigmoid, [0.16666667, 0.5, 0.6666667]),
        (F.relu6, [0.0, 0.0, 1.0]),
        (F.logsigmoid, [-2.126928, -0.6931472, -0.31326166]),
        (F.mish, [-0.2525015, 0.0, 0.86509836]),
        (F.selu, [-1.520166, 0.0, 1.050701]),
    ],
)
def test_activations(function, expected):
    np.testing.assert_allclose(function(torch.tensor([-2.0, 0.0, 1.0])).numpy(), expected, rtol=2e-6, atol=1e-7)


def test_in_place_activations():
    x = torch.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0.0, 2.0]


def test_cross_entropy():
    x, t = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), torch.tensor([2, 0])
    assert F.cross_entropy(x, t).item() == pytest.approx((0.40760595 + 1.0986123) / 2)
    np.testing.assert_allclose(F.cross_entropy(x, t, reduction="none").numpy(), [0.40760595, 1.0986123], rtol=1e-6)
    assert F.cross_entropy(x, t, ignore_index=0).item() == pytest.approx(0.40760595)
    assert F.cross_entropy(x, t, weight=torch.tensor([3.0, 1.0, 1.0])).item() == pytest.approx((0.40760595 + 3 * 1.0986123) / 4)
    assert F.cross_entropy(x, t, label_smoothing=0.1).item() == pytest.approx(0.80310914)
    assert np.isnan(F.cross_entropy(x, torch.tensor([-100, -100])).item())
    with pytest.raises(IndexError, match="Target 3 is out of bounds."):
        F.cross_entropy(x, torch.tensor([3, 0]))
    with pytest.raises(ValueError, match=r"Expected input batch_size \(2\) to match target batch_size \(1\)."):
        F.cross_entropy(x, torch.tensor([1]))
    with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got Int"):
        F.cross_entropy(x, t.int())


def test_losses():
    x, t = torch.tensor([0.5, -1.0]), torch.tensor([1.0, 1.0])
    assert nn.MSELoss()(x, t).item() == pytest.approx((0.25 + 4) / 2)
    assert nn.L1Loss(reduction="sum")(x, t).item() == pytest.approx(2.5)
    assert nn.SmoothL1Loss()(x, t).item() == pytest.approx((0.125 + 1.5) / 2)
    assert nn.BCEWithLogitsLoss()(x, t).item() == pytest.approx((0.47407699 + 1.3132616) / 2)
    assert nn.BCELoss()(torch.tensor([0.0]), torch.tensor([1.0])).item() == 100.0
    with pytest.warns(UserWarning, match="different to the input size"):
        nn.MSELoss()(x, torch.ones(1))
    with pytest.raises(ValueError, match="Target size .* must be the same as input size"):
        nn.BCEWithLogitsLoss()(x, torch.ones(1))


def test_attention_masks():
    q = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    v = torch.tensor([[[1.0], [2.0]]])
    assert F.scaled_dot_product_attention(q, q, v, is_causal=True)[0, 0].item() == 1.0
    mask = torch.tensor([[False, False], [False, True]])
    assert F.scaled_dot_product_attention(q, q, v, attn_mask=mask)[0].tolist() == [[0.0], [2.0]]
    added = torch.zeros(2, 2).masked_fill(~torch.tensor([[True, False], [True, True]]), float("-inf"))
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(q, q, v, attn_mask=added).numpy(),
        F.scaled_dot_product_attention(q, q, v, is_causal=True).numpy(),
        rtol=1e-6,
    )
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, q, v, attn_mask=mask, is_causal=True)


def test_attention_with_dropout_has_the_gradient_of_its_draw():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def run():
        torch.manual_seed(4)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=True)

    torch.autograd.gradcheck(lambda *_: run(), (q, k, v))


def test_grouped_heads():
    q, kv = torch.randn(1, 4, 3, 2), torch.randn(1, 2, 3, 2)
    want = F.scaled_dot_product_attention(q, kv.repeat_interleave(2, 1), kv.repeat_interleave(2, 1))
    assert torch.allclose(F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True), want)


def test_multihead_attention():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    assert list(layer.state_dict()) == ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    x = torch.randn(2, 5, 8)
    out, weights = layer(x, x, x)
    assert out.shape == (2, 5, 8) and weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), np.ones((2, 5)), rtol=1e-5)
    fast, none = layer(x, x, x, need_weights=False)
    assert none is None and torch.allclose(out, fast, atol=1e-6)
    masked, weights = layer(x, x, x, key_padding_mask=torch.tensor([[False] * 4 + [True]] * 2))
    assert weights[:, :, 4].abs().max().item() == 0.0
    first = nn.MultiheadAttention(8, 2)
    first.load_state_dict(layer.state_dict())
    assert torch.allclose(first(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1))[0].transpose(0, 1), out, atol=1e-6)


# -- init and utils


def test_initialisers():
    torch.manual_seed(0)
    w = torch.empty(200, 100)
    assert (
        nn.init.normal_(w, 1.0, 0.5) is w
        and w.mean().item() == pytest.approx(1.0, abs=0.02)
        and w.std().item() == pytest.approx(0.5, rel=0.02)
    )
    assert nn.init.xavier_uniform_(w).abs().max().item() <= (6 / 300) ** 0.5
    assert nn.init.kaiming_normal_(w, nonlinearity="relu").std().item() == pytest.approx((2 / 100) ** 0.5, rel=0.03)
    nn.init.trunc_normal_(w, std=2.0, a=-1.0, b=1.0)
    assert w.abs().max().item() <= 1.0 and abs(w.mean().item()) < 0.02
    assert nn.init.eye_(torch.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert nn.init.constant_(torch.empty(2, requires_grad=True), 3.0).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_normal_(torch.empty(3))


def test_clip_grad_norm():
    params = [torch.ones(3, requires_grad=True), torch.ones(2, 2, requires_grad=True)]
    for p in params:
        p.grad = torch.full_like(p, 2.0)
    total = nn.utils.clip_grad_norm_(params, 1.0)
    assert total.item() == pytest.approx(28**0.5) and params[0].grad[0].item() == pytest.approx(2 / 28**0.5)
    nn.utils.clip_grad_value_(params, 0.1)
    assert params[1].grad.max().item() == pytest.approx(0.1)
    vector = nn.utils.parameters_to_vector(params)
    nn.utils.vector_to_parameters(vector * 2, params)
    assert vector.shape == (7,) and params[1].tolist() == [[2.0, 2.0], [2.0, 2.0]]
