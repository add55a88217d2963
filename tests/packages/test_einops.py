"""einops: rearranging, reducing, repeating, packing, its einsum and its layers."""

import importlib.util
import json

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("einops") is None, reason="einops is not installed")

PROGRAM = """
from einops import rearrange, reduce, repeat, einsum, pack, unpack, asnumpy, parse_shape
from einops.layers.torch import EinMix, Rearrange, Reduce
x = filled((2, 3, 4, 6), 1, 1.0).requires_grad_()
parts = {
    "rearrange": rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3),
    "stack": rearrange([x, x * 2], "k b c h w -> b (k c) h w"),
    "reduce": reduce(x, "b c (h 2) (w 2) -> b c h w", "max"),
    "mean": reduce(x, "b c h w -> b c () ()", "mean"),
    "repeat": repeat(x, "b c h w -> b c (h 2) w k", k=2),
    "einsum": einsum(x, filled((3, 5), 2, 1.0), "b c h w, c d -> b h w d"),
}
packed, shapes = pack([x, x[..., :1]], "b c h *")
parts["pack"], parts["unpack"] = packed, unpack(packed, shapes, "b c h *")[1]
net = fill(torch.nn.Sequential(Rearrange("b c h w -> b (h w) c"), EinMix("b t c -> b t d", weight_shape="c d",
           bias_shape="d", c=3, d=5), Reduce("b t d -> b d", "mean")))
parts["layers"] = net(x)
sum((p * filled(p.shape, 7, 1.0)).sum() for p in parts.values()).backward()
result = {k: [list(p.shape), numbers(p)] for k, p in parts.items()}
result["grads"] = [numbers(x.grad), *(numbers(p.grad) for p in net.parameters())]
result["others"] = [asnumpy(x.detach()).shape, parse_shape(x, "b c _ w"), repr(net)]
print(json.dumps(result))
"""


def test_gives_torchs_numbers(both):
    result = both(PROGRAM, tolerance=1e-5)
    assert result["rearrange"][0] == [2, 4, 18] and result["layers"][0] == [2, 5]


COMPILED = """
from einops import rearrange, reduce

def attend(x):
    q = rearrange(x, "b n (h d) -> b h n d", h=2)
    return reduce(q.softmax(-1), "b h n d -> b n d", "sum")

if sys.argv[1] != "torch":
    attend = torch.compile(attend, fullgraph=True)
print(json.dumps(dict(out=numbers(attend(filled((2, 5, 8), 1, 1.0))))))
"""


def test_is_captured_as_one_graph(both):
    assert len(both(COMPILED)["out"]) == 40


LAYERS = {
    "patches": ("Rearrange('b c (h p) (w q) -> b (h w) (p q c)', p=2, q=3)", (2, 3, 4, 6)),
    "largest": ("Reduce('b c (h 2) (w 2) -> b c h w', 'max')", (2, 3, 4, 6)),
    "heads": ("EinMix('b t (h c) -> h b t d', weight_shape='h c d', bias_shape='h d', h=2, c=4, d=3)", (2, 5, 8)),
    "tokens": ("EinMix('b t c -> b u c', weight_shape='t u', bias_shape='u', t=5, u=4, c=8)", (2, 5, 8)),
    "downscale": (
        "EinMix('b c (h p) (w q) -> b d h w', weight_shape='c p q d', bias_shape='d', c=3, d=4, p=2, q=2)",
        (2, 3, 4, 6),
    ),
    "depthwise": ("EinMix('b t c -> b t c', weight_shape='c', c=8)", (2, 5, 8)),
}

LAYER_PROGRAM = """
from einops.layers.torch import EinMix, Rearrange, Reduce
results = {}
for name, (made, shape) in json.loads(sys.argv[2]).items():
    x = filled(shape, 1, 1.0).requires_grad_()
    layer = fill(eval(made))
    runs = [layer, torch.compile(layer, fullgraph=True) if sys.argv[1] != "torch" else layer]
    results[name] = []
    for run in runs:
        layer.zero_grad()
        x.grad = None
        out = run(x)
        (out * filled(out.shape, 3, 1.0)).sum().backward()
        results[name].append([list(out.shape), numbers(out), numbers(x.grad), [numbers(p.grad) for p in layer.parameters()]])
print(json.dumps(results))
"""


@pytest.mark.parametrize("name", LAYERS)
def test_layer_eager_and_compiled(both, name):
    assert len(both(LAYER_PROGRAM, json.dumps(LAYERS), part=name, tolerance=1e-5)) == 2
