"""Where results lie, as in PyTorch: their strides for inputs of every memory order, and whether they share an input's memory."""

import pytest

import flambeau

torch = pytest.importorskip("torch")

# x has the sizes (2, 4, 6, 6); L is the library
CALLS = """
L.cat([x, x], 1); L.cat([x, x]); L.cat([x, x], 3); L.cat([x, x.contiguous()], 1); L.cat([x, x.contiguous().double()], 1)
L.stack([x, x]); L.stack([x, x], 1); L.stack([x, x], 3); L.stack([x, x], 4); L.hstack([x, x]); L.vstack([x, x]); L.dstack([x, x])
x + x; x + x.contiguous(); x.contiguous() + x; x + L.ones(6); x + L.ones(4, 1, 1); x * 2; -x; x ** 2; x > 1; x.clone(); x.double(); x.contiguous()
L.zeros_like(x); L.rand_like(x); L.empty_like(x); L.full_like(x, 1); L.randint_like(x, 3); x.new_zeros(x.shape); L.bernoulli(x.sigmoid())
L.where(x > 1, x, 0.); L.where(x > 1, x, x.contiguous()); x.clamp(0, 1); L.lerp(x, x, 0.5); L.addcmul(x, x, x); L.maximum(x, x); L.fmod(x, 2.); x.isnan()
F.relu(x); F.gelu(x); F.elu(x); F.mish(x); F.threshold(x, 1, 0); F.hardswish(x); F.leaky_relu(x); F.prelu(x, L.ones(1)); F.glu(x, 2); F.glu(x, 1)
F.max_pool2d(x, 2); F.max_pool2d(x, 2, return_indices=True)[1]; F.avg_pool2d(x, 2); F.adaptive_avg_pool2d(x, 2); F.adaptive_max_pool2d(x, 2); F.lp_pool2d(x, 2, 2)
F.interpolate(x, scale_factor=2); F.interpolate(x, scale_factor=2, mode="bilinear"); F.interpolate(x, scale_factor=2, mode="bicubic"); F.interpolate(x, size=3, mode="area")
F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True); F.interpolate(x, scale_factor=2, mode="nearest-exact")
F.conv2d(x, L.ones(3, 4, 3, 3)); F.conv_transpose2d(x, L.ones(4, 3, 2, 2)); F.conv2d(x, L.ones(4, 1, 3, 3), groups=4)
F.batch_norm(x, None, None, training=True); F.batch_norm(x, L.zeros(4), L.ones(4)); F.group_norm(x, 2); F.layer_norm(x, x.shape[1:]); F.local_response_norm(x, 2)
x.softmax(1); x.log_softmax(-1); x.cumsum(1); x.cumprod(1); x.cummax(1)[0]; x.sum(1); x.mean((2, 3)); x.max(1)[0]; x.amax(2); x.argmax(1); x.var(1); x.norm(dim=1)
x.prod(2); (x > 1).any(1); x.logsumexp(1); x.std((0, 2)); x.nansum(1); x.median(1)[0]; x.kthvalue(1, 1)[0]; x.mode(1)[0]; x.quantile(0.5, 1)
F.pad(x, (1, 1, 1, 1)); F.pad(x, (1, 1, 1, 1), mode="reflect"); F.pad(x, (1, 1, 1, 1), mode="replicate"); F.pad(x, (1, 1, 1, 1), mode="circular")
F.pixel_shuffle(x, 2); F.pixel_shuffle(x, 1); F.pixel_shuffle(x[:, :, :1, :1], 2); F.pixel_unshuffle(x, 2); F.pixel_unshuffle(x, 1); F.pixel_unshuffle(x, 6)
F.channel_shuffle(x, 1); F.channel_shuffle(x, 2); F.channel_shuffle(x, 4); F.unfold(x, 2); F.dropout(x, 0.5); F.dropout(x, 0.0); F.dropout(x, 0.5, False); F.normalize(x)
x.flip(1); x.flip(()); x.roll(1, 1); x.roll((1, 2), (2, 3)); x.roll(0, 1); x.rot90(1, (2, 3)); x.rot90(0, (2, 3)); x.repeat(1, 2, 1, 1); x.repeat(1, 1, 1, 1); x.repeat_interleave(2, 1)
x.tile(2); x.tile(1); x.tril(); x.sort(1)[0]; x.sort(-1, descending=True)[1]; x.argsort(1); x.argsort(-1, descending=True); x.mT[..., ::2].sort(1)[0]; x.topk(2, 1)[0]; x.topk(2, 2)[1]; x.gather(1, L.zeros(2, 2, 6, 6, dtype=L.int64))
x.index_select(1, L.tensor([0, 1])); x[:, L.tensor([0, 0])]; x[x > 1]; x.scatter(1, L.zeros(2, 1, 6, 6, dtype=L.int64), 1.); x.index_add(1, L.tensor([0]), x[:, :1])
F.grid_sample(x, L.zeros(2, 3, 3, 2)); F.linear(x, L.ones(3, 6)); x @ L.ones(6, 2); L.cdist(x, x); F.cosine_similarity(x, x); x.diff(dim=2); x.diff(0)
F.mse_loss(x, x, reduction="none"); F.huber_loss(x, x, reduction="none"); F.cross_entropy(x, L.zeros(2, 6, 6, dtype=L.int64), reduction="none")
x.unbind(1)[0]; x.split(2, 1)[0]; x.flatten(1); x.reshape(2, -1); x.movedim(1, -1); x[0, 0].diag(); x[0, 0, 0].diag(); x.diagonal(0, 2, 3); x[0].matrix_power(1); x[0].matrix_power(0)
x.to(L.float32); x.float(); x.type(L.float32); x.squeeze(); x[:1].squeeze(0); x.expand_as(x); x.real; L.real(x); x.resolve_conj(); x.resolve_neg(); x.positive(); x.view_as(x)
x.ravel(); x[0, 0, 0, :1].squeeze(); L.atleast_3d(x); L.broadcast_to(x, x.shape); L.broadcast_tensors(x, x)[0]; L.meshgrid(x[0, 0, 0], x[0, 0, 0], indexing="ij")[0]; L.block_diag(x[0, 0])
L.as_tensor(x); L.asarray(x); L.nan_to_num(x); x.round(); x.trunc(); L.hstack([x]); L.cat([x]); L.chunk(x, 1)[0]; L.tensor_split(x, 1)[0]; x.unfold(2, 2, 1); x.narrow(1, 0, 4); x.t_() if x.dim() < 3 else x
x.masked_select(x > 1); x.take_along_dim(L.zeros(2, 1, 6, 6, dtype=L.int64), 1); L.swapaxes(x, 1, 2); L.combinations(x[0, 0, 0], 1); L.cartesian_prod(x[0, 0, 0]); L.einsum("bchw->bhwc", x)
L.trapezoid(x); L.renorm(x[:, 0, 0], 2, 0, 100.); L.tensordot(x, x, ([1, 2, 3], [1, 2, 3])); L.nn.Identity()(x); L.nn.Flatten(0, 0)(x); x.contiguous(memory_format=L.channels_last)
x.nonzero(); L.unique(x); L.histc(x, 3); L.logspace(0, 1, 3); x.cov() if x.dim() < 3 else x; x.detach(); x.data; x.requires_grad_(False); x.mT; x.adjoint(); x.H if x.dim() == 2 else x
"""
# memory orders of x, made from a row-major one
ORDERS = {
    "row-major": lambda L, x: x,
    "channels last": lambda L, x: x.contiguous(memory_format=L.channels_last),
    "transposed": lambda L, x: x.transpose(1, 3).contiguous().transpose(1, 3),
    "moved": lambda L, x: x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3),
    "expanded": lambda L, x: x[:1].expand(2, -1, -1, -1),
    "sliced": lambda L, x: L.cat([x, x], 2)[:, :, ::2],
}
# calls whose strides differ where the memory of x is not row-major, and why
OTHER_STRIDES = {
    'F.pad(x, (1, 1, 1, 1), mode="circular")': "channels stay last; PyTorch makes it of slices",
    "x.roll(0, 1)": "channels stay last as when something is rolled",
    "x[:, L.tensor([0, 0])]": "what indices pick is row-major; PyTorch's result may follow the order of the input",
    "x.nonzero()": "places are rows in memory, in PyTorch columns",
}


def calls():
    return [call.strip() for line in CALLS.strip().splitlines() for call in line.split(";")]


def facts(library, call, order):
    """(sizes and strides of what a call gives, whether it lies in x's memory)."""
    x = ORDERS[order](library, library.arange(288, dtype=library.float32).reshape(2, 4, 6, 6) * 0.01)
    result = eval(call, {"L": library, "F": library.nn.functional, "x": x})
    strides = tuple(s for s, n in zip(result.stride(), result.shape) if n != 1)
    shared = result.numel() and result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return (tuple(result.shape), strides), bool(shared)


@pytest.mark.parametrize("call", calls())
def test_results_lie_where_those_of_pytorch_do(call):
    for order in ORDERS:
        found, want = facts(flambeau, call, order), facts(torch, call, order)
        assert found[1] == want[1], f"{order}: shares memory with its input: {found[1]}, PyTorch {want[1]}"
        if call not in OTHER_STRIDES:
            assert found[0] == want[0], f"{order}: sizes and strides"


@pytest.mark.parametrize("sizes", [(1, 8, 2, 1), (1, 8, 2, 3), (4, 8, 3, 1), (4, 8, 3, 5)], ids=str)
def test_joins_of_sizes_that_are_symbolic_lie_where_those_of_pytorch_do(sizes):
    """Strides of dims of one element have a say in what is channels last, also where they are products of symbols."""
    step = lambda L: lambda x: L.cat([x, x], 1)
    for perm in [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 1, 3, 2), (0, 2, 1, 3)]:
        x = [L.ones([sizes[d] for d in perm]).permute([perm.index(d) for d in range(4)]) for L in (torch, flambeau)]
        compiled = flambeau.compile(step(flambeau), backend="eager", dynamic=True)
        told = [[s for s, n in zip(out.stride(), out.shape) if n > 1] for out in (step(torch)(x[0]), compiled(x[1]))]
        assert told[0] == told[1], perm
