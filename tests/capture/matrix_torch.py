"""Constructs over tensors and modules: methods, indexing, in-place, sizes, nn.Module, autograd, optimizers."""

from .matrix import construct

OWNED = ("argument", "local", "attribute", "item", "global", "cell")

# -- tensors -----------------------------------------------------------------------------------------------------------

construct(
    "tensor_methods",
    "tensor parameter",
    "r = (a + v).relu().sum(), v.mean(dim=-1, keepdim=True), v.t() @ a, v.clone(), v.reshape(-1), torch.cat([a, a]), v.sum().sqrt(), v.to(torch.float64), v.max(dim=0), v.argmax(), torch.stack([v, v]).shape, v.float(), v.detach()",
)
construct(
    "tensor_attributes",
    "tensor parameter vector mask",
    "r = a + 1, v.shape, v.dtype, v.device, v.ndim, v.dim(), v.requires_grad, v.is_leaf, v.numel(), v.size(-1), v.stride(), len(v), v.is_floating_point(), v.is_contiguous(), v.T if v.ndim == 2 else v, v.layout == torch.strided, v.grad, type(v).__name__, v.element_size(), v.is_cuda",
)
construct(
    "tensor_indexing",
    "int",
    "r = a[0], a[:, 1], a[..., None], a[-1, 0:2], a[None], a[0, 1], a[:, ::2], a[a > 0].shape if False else a[..., 0], a[[1, 0]], a[torch.tensor([0, 1])], a[:, [0, 2]], a[1:, None, :-1], a[()], a[True]",
    sizes=1,
)
construct("tensor_index_mask", "mask", "w = torch.arange(12.).reshape(4, 3) + a.sum()\nr = w[:2][v]", ops=-1, sizes=1)
construct(
    "tensor_index_kinds",
    "int slice index list ellipsis none bool",
    "w = torch.arange(12.).reshape(4, 3) + a.sum()\nr = w[v] if not isinstance(v, torch.Tensor) or v.dtype != torch.bool else w[:2][v]",
    sizes=1,
)
construct(
    "tensor_store",
    "int float scalar vector",
    "b = a.clone()\nb[0] = v\nb[:, 1] = 5\nb[1, :2] += v if not isinstance(v, torch.Tensor) or v.dim() == 0 else 2\nb[..., -1] *= 2\nb[b > 3] = 0\nr = b",
    sources=("argument", "local", "attribute", "item", "global", "cell"),
)
construct(
    "tensor_in_place", "int float scalar tensor", "b = a.clone()\nb.add_(v).mul_(2)\nb -= 1\nb.clamp_(-1, 1)\nb[0].zero_()\nr = b"
)
construct("tensor_in_place_argument", "tensor", "v.mul_(2)\nv += a\nv[0] = 0\nr = v * a", sources=OWNED)
construct("tensor_views_alias", "tensor", "w = v[0]\nu = v.view(-1)\nw.add_(1)\nu[3] = 9\nr = v + a, w, u", sources=OWNED)
construct("tensor_out", "tensor", "o = torch.empty_like(v)\ntorch.add(v, 1, out=o)\nr = o * 2, a + 1")
construct("tensor_compare_identity", "tensor", "w = v\nr = a + 1, v is w, v is not a, (v == v).all() is not None")
construct(
    "tensor_creation",
    "int float",
    "r = torch.zeros(2), torch.full((2,), v), torch.arange(3), a.new_ones(2), torch.ones_like(a), torch.eye(2), torch.linspace(0, 1, 3), a + torch.zeros(3), torch.empty(2).shape",
)
construct(
    "tensor_from_data",
    "int float list floats",
    "r = a + 1, torch.tensor(v), torch.tensor([v, v]), torch.as_tensor(v), torch.tensor(v, dtype=torch.float64)",
    ops=-1,
    sources=("argument", "local", "attribute", "item", "global", "cell"),
)
construct(
    "tensor_random",
    "int",
    "r = torch.rand(2), torch.randn_like(a), a + torch.randn(3), torch.nn.functional.dropout(a, 0.5, training=True), torch.randint(0, 9, (2,)), torch.randperm(4)",
)
construct(
    "tensor_functions",
    "tensors",
    "r = torch.cat([t.reshape(-1) for t in v]), torch.stack([v[0], v[1][0]]), torch.where(a > 0, a, v[0]), torch.einsum('ij,kj->ik', a, v[1]), F.softmax(a, -1), torch.split(a, 1, dim=1), torch.chunk(a, 3, 1), a.unbind(1), torch.meshgrid(v[0], v[0], indexing='ij')",
)
construct(
    "tensor_multi_results",
    "tensor",
    "values, indices = v.max(dim=1)\ntop = v.topk(2)\nr = values + a.sum(), indices, top.values, top[1], v.sort(dim=1).indices, v.min(dim=0).values, type(top).__name__",
)
construct("tensor_attribute_store", "tensor", "v.tag = 5\nr = v * v.tag + a, hasattr(v, 'tag')", sources=OWNED, seen=False)
construct(
    "tensor_getattr_dynamic",
    "str",
    "name = 'relu'\nr = getattr(a, name)(), getattr(torch, 'sin')(a), getattr(F, name)(a), hasattr(torch, 'nothing')",
)
construct(
    "tensor_isinstance",
    "tensor parameter int",
    "r = a + 1, torch.is_tensor(v), isinstance(v, torch.nn.Parameter), isinstance(v, (torch.Tensor, int)), type(v) is torch.Tensor",
)
construct(
    "tensor_size_arithmetic",
    "int",
    "b, n = a.shape\nhalf = n // 2\nr = a[:, :half], a[:, half:], a.view(b, 1, n), a * (b + n) / n, a.reshape(b * n), torch.zeros(b, n + 1), a.expand(2, b, n), a.repeat(2, 1), a.unflatten(1, (1, n))",
)
construct(
    "tensor_size_branch",
    "int",
    "if a.shape[0] > 1:\n    r = a * 2\nelse:\n    r = a + 1\nif a.shape[1] % 3 == 0:\n    r = r - 1\nassert a.size(1) == 3",
    sizes=0,
)
construct("tensor_bool_raises", "tensor", "try:\n    bool(v)\nexcept RuntimeError as error:\n    r = a + 1, str(error)")
construct(
    "tensor_float_conversion",
    "int",
    "r = a.double() + v, a.int(), a.type(torch.int64), a.to(a.dtype), a.type_as(a), a.bool(), a.half().float()",
)
construct(
    "tensor_numpy_dtype_strings",
    "dtype",
    "r = a.to(v) * 2, torch.result_type(a, 3), torch.promote_types(torch.float32, v), torch.get_default_dtype(), torch.is_floating_point(a)",
)
construct("tensor_grad_free", "tensor", "r = (a * v).detach() + 1, v.requires_grad, (v.data * 2)", ops=-1)
construct("tensor_format", "tensor", "r = a + 1, f'{tuple(v.shape)} {v.dtype}', str(v.size())", sizes=1)
construct(
    "tensor_list_of_rows",
    "tensor",
    "rows = [row for row in v]\nrows.reverse()\nr = torch.stack(rows) + a, [t.sum() for t in v.unbind(0)]",
    sizes=1,
)
construct(
    "tensor_dict_cache",
    "int",
    "cache = {}\nfor k in range(2):\n    cache[k] = a * k if k not in cache else cache[k]\nr = torch.cat(list(cache.values()))",
)
construct(
    "tensor_named_arguments",
    "int",
    "r = torch.sum(input=a, dim=0), a.sum(dim=(0, 1)), torch.add(a, a, alpha=v), F.pad(a, (1, 1), value=v), a.mean(axis=1), torch.clamp(a, min=0), a.transpose(dim0=0, dim1=1), a.permute(1, 0), a.permute((1, 0))",
)
construct("item", "scalar", "n = v.item()\nr = a * n, n", ops=-1)
construct("item_to_size", "index", "n = v[0].item()\nr = a[:n + 1] * 2", sizes=1)
construct("tolist", "vector", "n = v.tolist()\nr = a * n[0], n", ops=-1)
construct(
    "branch_on_data", "scalar", "if v > 1:\n    r = a + 1\nelse:\n    r = a - 1", breaks="a branch that only the data decides"
)

# -- modules -----------------------------------------------------------------------------------------------------------

construct("module_call", "module sequential modulelist", "r = v(a)", sources=OWNED)
construct("module_buffers", "buffered", "r = v(a), v.late, v.seen", sources=OWNED)
construct(
    "module_buffer_created_late",
    "buffered",
    "if v.late is None:\n    v.late = a.sum(0)\nr = a * v.late",
    sources=OWNED,
    recompiles=0,
)
construct(
    "module_register_buffer",
    "buffered",
    "if not hasattr(v, 'made'):\n    v.register_buffer('made', torch.ones(3))\nr = a * v.made",
    sources=OWNED,
)
construct("module_attribute_mutation", "module", "v.calls += 2\nv.note = 'x'\nr = v(a), v.calls", sources=OWNED)
construct("module_training_flag", "module buffered", "r = a * 2 if v.training else a, v.training")
construct(
    "module_parameters",
    "module sequential modulelist",
    "r = a + 1, [tuple(p.shape) for p in v.parameters()], [n for n, p in v.named_parameters()], len(list(v.parameters())), sum(p.numel() for p in v.parameters()), sum((p * p).sum() for p in v.parameters())",
)
construct(
    "module_names",
    "sequential buffered",
    "r = a + 1, [n for n, m in v.named_modules()], [n for n, m in v.named_children()], [n for n, b in v.named_buffers()], len(list(v.modules())), list(v.state_dict())",
    ops=None,
)
construct(
    "module_sequential",
    "sequential",
    "r = v.layers(a), v.layers[0](a), len(v.layers), [type(m).__name__ for m in v.layers], v.layers[1:](a), v.layers[-1](a)",
)
construct(
    "module_dict",
    "sequential",
    "r = v.table['p'](a), 'q' in v.table, list(v.table), [k for k, m in v.table.items()], v.table.q(a), len(v.table)",
)
construct(
    "module_list",
    "modulelist",
    "r = v(a), v.blocks[1](a), len(v.blocks), [b(a) for b in v.blocks], [w * a for w in v.weights], v.blocks[-1].weight.shape, [i for i, b in enumerate(v.blocks)]",
)
construct(
    "module_getattr",
    "sequential module",
    "r = a + 1, hasattr(v, 'layers'), getattr(v, 'nothing', None), v.training, v._get_name(), type(v).__name__",
)
construct("module_missing_attribute", "module", "try:\n    v.nothing\nexcept AttributeError as error:\n    r = a + 1, str(error)")
construct(
    "module_functional",
    "module",
    "r = F.linear(a, v.inner.weight, v.inner.bias), v.inner.weight.t() @ a.t(), v.inner.in_features, v.inner.weight.requires_grad",
)
construct("module_made_inside", "int", "m = nn.ReLU()\nr = m(a) * v")
construct("module_apply_to", "module", "r = a + 1, v.extra_repr(), [m.training for m in v.modules()]")
construct("module_hook_global_none", "module", "r = v.inner(a) + v.inner.forward(a)")
construct(
    "module_forward_hook",
    "int",
    "r = hooked(a)",
    setup="""
    hooked = nn.Linear(3, 3)
    log = []
    hooked.register_forward_hook(lambda m, args, out: out * 2)
    hooked.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    """,
)
construct("module_train_eval", "module", "v.eval()\nr = v(a), v.training\nv.train()\nr = r, v(a)", sources=OWNED)
construct(
    "module_container_iteration",
    "sequential modulelist",
    "r = a + 0\nfor m in v.children():\n    r = m(r) if not isinstance(m, (nn.ModuleDict, nn.ModuleList, nn.ParameterList)) else r",
)
construct("module_zero_grad", "module", "v.zero_grad()\nr = v(a)")

# -- autograd and training ---------------------------------------------------------------------------------------------

construct("autograd_function", "int tensor", "r = Square.apply(a) * v", grad=True, ops=-1)
construct("autograd_function_setup", "int float", "p, q = Scaled.apply(a, v)\nr = p + q", grad=True, ops=-1)
construct("autograd_function_no_grad", "int", "r = Square.apply(a) * v")
construct(
    "checkpoint",
    "int module",
    "from flambeau.utils.checkpoint import checkpoint\nr = checkpoint(lambda t: (t * 2).sin(), a, use_reentrant=False) + 1",
    grad=True,
)
construct(
    "checkpoint_module",
    "module",
    "from flambeau.utils.checkpoint import checkpoint\nr = checkpoint(v, a, use_reentrant=False)",
    grad=True,
    sources=OWNED,
)
construct("requires_grad_flow", "int", "b = a * v\nr = b.requires_grad, b.is_leaf, b.detach().requires_grad, b", grad=True)
construct(
    "backward_inside",
    "module",
    "loss = v(a).sum()\nloss.backward()\nr = loss, [p.grad is not None for p in v.parameters()]",
    sources=("argument", "attribute", "global"),
)
construct("autograd_grad_inside", "int", "b = (a * a).sum()\n(g,) = torch.autograd.grad(b, a)\nr = g * v", grad=True)
construct(
    "optimizer_step",
    "module",
    "opt = torch.optim.SGD(v.parameters(), lr=0.1)\nloss = v(a).sum()\nloss.backward()\nopt.step()\nopt.zero_grad()\nr = loss.detach()",
    sources=("argument", "attribute", "global"),
)
construct("float_branch", "float", "w = a if v < 5.0 else a * 2\nr = w + v")
construct(
    "library_error_text",
    "int",
    "try:\n    r = a + torch.ones(7, 7)\nexcept RuntimeError as error:\n    r = a * v, 'size' in str(error)",
    breaks_with_symbols="the text tells a size that changes",
)
