"""Random calls of the functions of neural networks: convolution, pooling, norms, padding, resampling, losses, lookups,
attention, recurrent layers, optimizers."""

import dataclasses

from .fuzz_draw import OMIT, calls

F = ("function",)
REAL = ("float32", "float64")


def rank(x):
    return len(x.shape)


def images(d, dims, channels=None, low=3, high=6, batch=True):
    """(N, C, *sizes), now and then without N."""
    shape = (channels or d.int(1, 4), *(d.int(low, high) for _ in range(dims)))
    shape = (d.pick(1, 2, 2, 0 if d.chance(0.1) else 1), *shape) if batch or d.chance(0.8) else shape
    return d.tensor(shape, dtype=d.pick("float32", "float32", "float64", "bfloat16" if d.chance(0.3) else "float32"))


def per_dim(d, dims, low, high):
    """A number, or one per dim."""
    return d.pick(d.int(low, high), tuple(d.int(low, high) for _ in range(dims)))


# -- convolution


@calls("F.conv1d F.conv2d F.conv3d", F, weight=2, tolerance=10)
def convolution(d):
    dims, groups = int(d.name[4]), d.pick(1, 1, 2, 3)
    inner, outer = d.int(1, 2), d.int(1, 2)
    x = images(d, dims, inner * groups, 4, 6, batch=False)
    kernel = tuple(d.int(1, 3) for _ in range(dims))
    stride = per_dim(d, dims, 1, 2)
    return {
        "input": x,
        "weight": d.tensor((outer * groups, inner, *kernel), dtype=x.dtype),
        "bias": d.maybe(0.6, d.tensor((outer * groups,), dtype=x.dtype)),
        "stride": stride,
        "padding": d.pick("same" if stride in (1, (1,) * dims) else 1, "valid", 0, per_dim(d, dims, 0, 2)),
        "dilation": per_dim(d, dims, 1, 2),
        "groups": groups,
    }


@calls("F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d", F, weight=2, tolerance=10)
def transposed_convolution(d):
    dims, groups = int(d.name[14]), d.pick(1, 1, 2)
    inner, outer = d.int(1, 2), d.int(1, 2)
    x = images(d, dims, inner * groups, 2, 4, batch=False)
    return {
        "input": x,
        "weight": d.tensor((inner * groups, outer, *(d.int(1, 3) for _ in range(dims))), dtype=x.dtype),
        "bias": d.maybe(0.6, d.tensor((outer * groups,), dtype=x.dtype)),
        "stride": per_dim(d, dims, 1, 3),
        "padding": d.int(0, 1),
        "output_padding": d.pick(0, 0, 1),
        "groups": groups,
        "dilation": d.pick(1, 2),
    }


def convolution_gradient(lib, x, w, g, stride, padding, dilation, groups):
    dims, more = x.dim() - 2, (stride, padding, dilation, groups)
    of = lib.nn.grad
    return (getattr(of, f"conv{dims}d_input")(x.shape, w, g, *more), getattr(of, f"conv{dims}d_weight")(x, w.shape, g, *more))


@calls(convolution_gradient, order=1, tolerance=10)
def gradients_of_convolutions(d):
    dims, groups = d.int(1, 3), d.pick(1, 1, 2)
    inner, outer, dtype = d.int(1, 2), d.int(1, 2), d.pick(*REAL)
    sizes, kernel = [d.int(4, 6) for _ in range(dims)], [d.int(1, 3) for _ in range(dims)]
    stride, padding, dilation = ([d.int(low, high) for _ in range(dims)] for low, high in ((1, 2), (0, 1), (1, 2)))
    windows = [(n + 2 * p - e * (k - 1) - 1) // s + 1 for n, k, s, p, e in zip(sizes, kernel, stride, padding, dilation)]
    if min(windows) < 1:
        windows, stride, padding, dilation, kernel = sizes, [1] * dims, [0] * dims, [1] * dims, [1] * dims
    return {
        "/x": d.tensor((2, inner * groups, *sizes), dtype=dtype),
        "/w": d.tensor((outer * groups, inner, *kernel), dtype=dtype),
        "/g": d.tensor((2, outer * groups, *windows), dtype=dtype),
        "/stride": tuple(stride),
        "/padding": tuple(padding),
        "/dilation": tuple(dilation),
        "/groups": groups,
    }


def channels_last(lib, x, w):
    y = lib.nn.functional.conv2d(x.to(memory_format=lib.channels_last), w, padding=1)
    return y, lib.relu(y), y * 2, y + y.mean((2, 3), keepdim=True), lib.nn.functional.max_pool2d(y, 2)


@calls(channels_last, order=1, strides=True, tolerance=10)
def convolution_of_channels_last(d):
    x = d.tensor((d.int(1, 2), 3, d.int(3, 5), d.int(3, 5)), dtype=d.pick(*REAL), plain=True)
    return {"/x": x, "/w": d.tensor((d.int(2, 4), 3, 3, 3), dtype=x.dtype, plain=True)}


# -- pooling


@calls("F.max_pool1d F.max_pool2d F.max_pool3d", F, weight=1.5)
def max_pool(d):
    dims = int(d.name[8])
    x = images(d, dims, batch=False)
    x = d.like(x, values="distinct") if x.dtype != "bfloat16" else x
    kernel = d.int(1, 3)
    return {
        "input": x,
        "kernel_size": kernel,
        "stride": d.maybe(0.6, per_dim(d, dims, 1, 3)),
        "padding": d.int(0, kernel // 2),
        "dilation": d.pick(1, 1, 2),
        "ceil_mode": d.chance(0.4),
        "return_indices": d.maybe(0.4, True) if x.dtype != "bfloat16" else OMIT,
    }


@calls("F.avg_pool1d F.avg_pool2d F.avg_pool3d", F, weight=1.5, tolerance=3)
def avg_pool(d):
    dims = int(d.name[8])
    kernel = d.int(1, 3)
    return {
        "input": images(d, dims, batch=False),
        "kernel_size": kernel,
        "stride": d.maybe(0.6, per_dim(d, dims, 1, 3)),
        "padding": d.int(0, kernel // 2),
        "ceil_mode": d.chance(0.4),
        "count_include_pad": d.maybe(0.5, False),
        **({"divisor_override": d.maybe(0.3, 2)} if dims > 1 else {}),
    }


@calls(
    "F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.adaptive_max_pool1d F.adaptive_max_pool2d "
    "F.adaptive_max_pool3d",
    F,
    tolerance=3,
)
def adaptive_pool(d):
    dims = int(d.name[-2])
    x = images(d, dims, batch=False)
    x = d.like(x, values="distinct") if "max" in d.name and x.dtype != "bfloat16" else x
    size = d.pick(d.int(1, 7), tuple(d.int(1, 7) for _ in range(dims)), (None,) * (dims - 1) + (2,))
    return {"input": x, "output_size": size}


@calls("F.lp_pool1d F.lp_pool2d F.lp_pool3d", F, order=1, tolerance=5)
def lp_pool(d):
    return {
        "input": d.like(images(d, int(d.name[7])), values="positive"),
        "norm_type": d.pick(1, 2, 3.0),
        "kernel_size": d.int(1, 3),
        "stride": d.maybe(0.5, d.int(1, 2)),
        "ceil_mode": d.maybe(0.3, True),
    }


def unpooled(lib, x, kernel):
    f = lib.nn.functional
    y, places = f.max_pool2d(x, kernel, return_indices=True)
    return f.max_unpool2d(y, places, kernel, output_size=x.shape[-2:])


@calls(unpooled, order=1)
def unpooling(d):
    return {"/x": d.tensor((2, 2, 4, 6), dtype=d.pick(*REAL), values="distinct"), "/k": 2}


# -- norms


@calls("F.layer_norm F.rms_norm", F, weight=2, tolerance=20)
def layer_norm(d):
    x = d.tensor(d.shape(1))
    shape = x.shape[-d.int(1, rank(x)) :]
    weight = d.maybe(0.6, d.tensor(shape, dtype=x.dtype))
    bias = {"bias": d.maybe(0.5, d.tensor(shape, dtype=x.dtype))} if d.name == "layer_norm" else {}
    return {"input": x, "normalized_shape": d.pick(shape, list(shape)), "weight": weight, **bias, "eps": d.maybe(0.3, 0.1)}


@calls("F.batch_norm F.instance_norm", F, weight=2, tolerance=30)
def batch_norm(d):
    x = images(d, d.int(0 if d.name == "batch_norm" else 1, 3), low=2, high=4)
    c, dtype = x.shape[1], x.dtype
    flag = "training" if d.name == "batch_norm" else "use_input_stats"
    running = d.chance(0.6)
    train = d.chance(0.6) or not running
    return {
        "input": x,
        "running_mean": d.tensor((c,), dtype=dtype, grad=False, plain=True) if running else None,
        "running_var": d.tensor((c,), dtype=dtype, values="positive", grad=False, plain=True) if running else None,
        "weight": d.maybe(0.6, d.tensor((c,), dtype=dtype)),
        "bias": d.maybe(0.6, d.tensor((c,), dtype=dtype)),
        flag: train,
        "momentum": d.maybe(0.4, 0.3),
        "eps": d.maybe(0.3, 0.1),
    }


@calls("F.group_norm", F, weight=1.5, tolerance=30)
def group_norm(d):
    groups = d.int(1, 3)
    x = images(d, d.int(0, 2), groups * d.int(1, 2), 1, 4)
    x = x if x.grad else dataclasses.replace(x, layout=("contiguous",))  # PyTorch crashes at gradients of the weight alone
    c = x.shape[1]
    return {
        "input": x,
        "num_groups": groups,
        "weight": d.maybe(0.6, d.tensor((c,), dtype=x.dtype)),
        "bias": d.maybe(0.6, d.tensor((c,), dtype=x.dtype)),
        "eps": d.maybe(0.3, 0.1),
    }


@calls("F.local_response_norm F.normalize", F, tolerance=10)
def other_norms(d):
    x = images(d, d.int(1, 2))
    if d.name == "normalize":
        return {"input": x, "p": d.maybe(0.4, d.pick(1, 2.0, 3)), "dim": d.maybe(0.5, d.pick(0, -1))}
    return {"input": x, "size": d.int(1, 4), "alpha": d.maybe(0.5, 0.1), "beta": d.maybe(0.5, 0.5), "k": d.maybe(0.5, 2.0)}


# -- padding, resampling, rearranging of images


@calls("F.pad", F, weight=3)
def pad(d):
    dims = d.int(1, 3)
    x = images(d, dims, batch=False)
    mode = d.pick("constant", "constant", "reflect", "replicate", "circular")
    low = -1 if mode == "constant" or d.chance(0.2) else 0
    given = dims if mode != "constant" else d.int(1, dims)
    return {
        "input": x,
        "pad": tuple(d.int(low, 2) for _ in range(2 * given)),
        "mode": mode,
        "value": d.maybe(0.5, d.pick(1.5, -2)) if mode == "constant" else OMIT,
    }


@calls("F.interpolate", F, weight=4, tolerance=20)
def interpolate(d):
    dims = d.int(1, 3)
    modes = ["nearest", "nearest-exact", "area", {1: "linear", 2: "bilinear", 3: "trilinear"}[dims]] + ["bicubic"] * (dims == 2)
    mode = d.pick(*modes)
    x = images(d, dims, low=2, high=5)
    linear = "linear" in mode or mode == "bicubic"
    by_size = d.chance(0.5)
    return {
        "input": x,
        "size": d.pick(d.int(1, 7), tuple(d.int(1, 7) for _ in range(dims))) if by_size else None,
        "scale_factor": None if by_size else d.pick(2, 0.5, 1.7, tuple(d.pick(0.6, 1.5, 2.0) for _ in range(dims))),
        "mode": mode,
        "align_corners": d.pick(None, True, False) if linear else None,
        "recompute_scale_factor": d.maybe(0.2, True) if not by_size else OMIT,
        "antialias": d.maybe(0.4, True) if mode in ("bilinear", "bicubic") else OMIT,
    }


@calls("F.grid_sample", F, weight=2, order=1, tolerance=30)
def grid_sample(d):
    dims = d.pick(2, 2, 3)
    x = d.tensor((2, d.int(1, 3), *(d.int(2, 4) for _ in range(dims))), dtype=d.pick(*REAL))
    grid = d.tensor((2, *(d.int(1, 3) for _ in range(dims)), dims), dtype=x.dtype, values=d.pick("open", "normal"))
    return {
        "input": x,
        "grid": grid,
        "mode": d.pick("bilinear", "nearest", *["bicubic"] * (dims == 2)),
        "padding_mode": d.pick("zeros", "border", "reflection"),
        "align_corners": d.pick(True, False),
    }


@calls("F.affine_grid", F, tolerance=5)
def affine_grid(d):
    return {
        "theta": d.tensor((2, 2, 3), dtype=d.pick(*REAL)),
        "size": (2, 1, d.int(1, 4), d.int(1, 4)),
        "align_corners": d.pick(True, False),
    }


@calls("F.unfold", F)
def unfold(d):
    return {
        "input": images(d, 2, batch=False),
        "kernel_size": per_dim(d, 2, 1, 3),
        "dilation": d.pick(1, 1, 2),
        "padding": per_dim(d, 2, 0, 1),
        "stride": per_dim(d, 2, 1, 2),
    }


@calls("F.fold", F, tolerance=3)
def fold(d):
    kernel, n = d.int(1, 2), d.int(3, 5)
    stride, padding = d.int(1, 2), d.int(0, 1)
    blocks = ((n + 2 * padding - kernel) // stride + 1) ** 2
    return {
        "input": d.tensor((2, 2 * kernel * kernel, blocks), dtype=d.pick(*REAL)),
        "output_size": (n, n),
        "kernel_size": kernel,
        "padding": padding,
        "stride": stride,
    }


@calls("F.pixel_shuffle F.pixel_unshuffle torch.channel_shuffle", F)
def shuffles(d):
    rows, columns = d.pick((4, 6), (4, 6), (1, 1), (2, 2)) if d.name != "pixel_unshuffle" else d.pick((4, 6), (2, 2))
    lead = d.pick((), (2,)) if d.name != "channel_shuffle" else (2,)
    return {"/x": d.tensor((*lead, 8, rows, columns), dtype="float32"), "/n": d.pick(2, 2, 1)}


# -- losses


def of_another_type(d, target):
    """Sometimes: the type of a target decides the type of some losses, or refuses the call."""
    return dataclasses.replace(target, dtype=d.pick("float64", "float32", "bfloat16", "float16")) if d.chance(0.1) else target


def reduced(d):
    return {"reduction": d.maybe(0.7, d.pick("none", "mean", "sum"))}


@calls(
    "F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss F.soft_margin_loss F.kl_div F.poisson_nll_loss "
    "F.hinge_embedding_loss F.multilabel_soft_margin_loss",
    F,
    weight=1.5,
    tolerance=10,
)
def losses(d):
    x = d.tensor(
        d.full_shape(2, 2) if d.name.startswith("multi") else d.shape(), dtype=d.pick("float32", "float64", "float32", "bfloat16")
    )
    target = d.like(
        x, values={"kl_div": "unit", "poisson_nll_loss": "positive", "multilabel_soft_margin_loss": "unit"}.get(d.name, "normal")
    )
    extra = {
        "smooth_l1_loss": {"*beta": d.maybe(0.5, d.pick(0.5, 0.0))},
        "huber_loss": {"*delta": d.maybe(0.5, 0.5)},
        "kl_div": {"*log_target": d.maybe(0.4, True)},
        "hinge_embedding_loss": {"*margin": d.maybe(0.5, 0.5)},
        "poisson_nll_loss": {"*log_input": d.maybe(0.4, True), "*full": d.maybe(0.3, True)},
    }.get(d.name, {})
    if d.name != "huber_loss":  # (its backward refuses what its forward takes)
        target = of_another_type(d, target)
    return {"input": x, "target": target, **{"*" + k: v for k, v in reduced(d).items()}, **extra}


@calls("F.binary_cross_entropy F.binary_cross_entropy_with_logits", F, weight=1.5, tolerance=10)
def binary_cross_entropy(d):
    x = d.tensor(d.shape(), dtype=d.pick(*REAL), values="unit")
    extra = {"*pos_weight": d.maybe(0.3, d.like(x, values="positive", grad=False))} if "logits" in d.name else {}
    return {
        "input": x,
        "target": of_another_type(d, d.like(x)),
        "weight": d.maybe(0.3, d.like(x, values="positive", grad=False)),
        **{"*" + k: v for k, v in reduced(d).items()},
        **extra,
    }


@calls("F.cross_entropy F.nll_loss", F, weight=4, tolerance=10)
def cross_entropy(d):
    c, extra = d.int(1, 4), d.shape(0, 2) if d.chance(0.4) else ()
    x = d.tensor((d.int(0, 4), c, *extra) if d.chance(0.9) else (c,), dtype=d.pick("float32", "float64", "float32", "bfloat16"))
    shape = (x.shape[0], *x.shape[2:]) if rank(x) > 1 else ()
    target = d.index(shape, c) if d.name == "nll_loss" or d.chance(0.75) else d.like(x, values="unit")
    options = {"*ignore_index": d.maybe(0.3, d.int(0, c - 1)) if target.values == "index" else OMIT}
    if d.name == "cross_entropy":
        options["*label_smoothing"] = d.maybe(0.4, 0.2)
    return {
        "input": x,
        "target": target,
        "weight": d.maybe(0.4, d.tensor((c,), dtype=x.dtype, values="positive", grad=False)),
        **{"*" + k: v for k, v in reduced(d).items()},
        **options,
    }


@calls("F.multi_margin_loss F.multilabel_margin_loss", F, order=1, tolerance=5)
def margin_losses(d):
    n, c = d.int(1, 3), d.int(2, 4)
    x = d.tensor((n, c), dtype=d.pick(*REAL))
    if d.name == "multi_margin_loss":
        return {
            "input": x,
            "target": d.index((n,), c),
            "p": d.maybe(0.4, 2),
            "margin": d.maybe(0.4, 0.5),
            **{"*" + k: v for k, v in reduced(d).items()},
        }
    return {"input": x, "target": d.index((n, c), c), **{"*" + k: v for k, v in reduced(d).items()}}


@calls("F.cosine_embedding_loss F.margin_ranking_loss", F, tolerance=10)
def ranking(d):
    shape = (d.int(1, 4), 3) if "cosine" in d.name else (d.int(1, 4),)
    x = d.tensor(shape, dtype=d.pick(*REAL))
    target = d.tensor(shape[:1], dtype=x.dtype, values="ones", grad=False)
    return {
        "input1": x,
        "input2": d.like(x),
        "target": target,
        "margin": d.maybe(0.5, 0.3),
        **{"*" + k: v for k, v in reduced(d).items()},
    }


@calls("F.triplet_margin_loss F.triplet_margin_with_distance_loss", F, tolerance=20)
def triplet(d):
    if "distance" in d.name:
        x = d.tensor((d.int(1, 4), 3), dtype=d.pick(*REAL))
        return {
            "anchor": x,
            "positive": d.like(x),
            "negative": d.like(x),
            "*margin": d.maybe(0.4, 2.0),
            "*swap": d.maybe(0.4, True),
            **{"*" + k: v for k, v in reduced(d).items()},
        }
    x = d.tensor((d.int(1, 4), 3), dtype=d.pick(*REAL))
    return {
        "anchor": x,
        "positive": d.like(x),
        "negative": d.like(x),
        "margin": d.maybe(0.4, 2.0),
        "p": d.maybe(0.4, d.pick(1, 2, 3)),
        "*swap": d.maybe(0.4, True),
        **{"*" + k: v for k, v in reduced(d).items()},
    }


@calls("F.gaussian_nll_loss", F, tolerance=10)
def gaussian(d):
    x = d.tensor((d.int(1, 3), 3), dtype=d.pick(*REAL))
    return {"input": x, "target": d.like(x), "var": d.like(x, values="positive"), "full": d.maybe(0.4, True)}


@calls("F.cosine_similarity F.pairwise_distance torch.cosine_similarity", F, tolerance=20)
def similarity(d):
    x = d.tensor(d.full_shape(1, 3), dtype=d.pick(*REAL))
    options = (
        {"dim": d.maybe(0.6, d.int(-rank(x), rank(x) - 1))}
        if "cosine" in d.name
        else {"p": d.maybe(0.6, d.pick(1, 2, 3)), "*keepdim": d.maybe(0.4, True)}
    )
    if d.name == "cosine_similarity" and rank(x) == 1:
        options = {"dim": 0}
    return {"x1": x, "x2": d.like(x), **options}


def connectionist(lib, x, targets, lengths, counts, blank, reduction, zero):
    return lib.nn.functional.ctc_loss(lib.log_softmax(x, 2), targets, lengths, counts, blank, reduction, zero)


@calls(connectionist, order=1, tolerance=20)
def ctc(d):
    t, n, c, s = d.int(4, 7), d.int(1, 3), 4, d.int(1, 3)
    blank = d.pick(0, 3)
    targets = d.index((n, s), 3)
    if blank == 0:
        targets = d.like(targets, values="ones")
    return {
        "/x": d.tensor((t, n, c), dtype=d.pick(*REAL)),
        "/t": targets,
        "/l": [d.int(3, t) for _ in range(n)],
        "/c": [d.int(0 if d.chance(0.2) else 1, s) for _ in range(n)],
        "/b": blank,
        "/r": d.pick("mean", "sum", "none"),
        "/z": d.chance(0.5),
    }


@calls("F.pdist", F, order=1, tolerance=20)
def distances_of_rows(d):
    return {
        "input": d.tensor((d.int(2, 4), d.int(1, 3)), dtype=d.pick(*REAL)),
        "p": d.maybe(0.6, d.pick(1.0, 2.0, 3.0, float("inf"))),
    }


@calls("F.rrelu", F)
def rectified_by_the_mean_slope(d):
    return {"input": d.tensor(values=d.pick("normal", "special")), "lower": d.maybe(0.5, 0.1), "upper": d.maybe(0.5, 0.5)}


# -- lookups, attention


@calls("F.embedding", F)
def embedding(d):
    n = d.int(1, 5)
    return {
        "input": d.index(d.shape(), n, d.pick("int64", "int32")),
        "weight": d.tensor((n, d.int(1, 4))),
        "padding_idx": d.maybe(0.4, d.int(-n, n - 1)),
        "scale_grad_by_freq": d.maybe(0.1, True),
    }


@calls("F.embedding_bag", F, order=1, tolerance=5)
def embedding_bag(d):
    flat = d.chance(0.5)
    dtype = d.pick(*REAL)
    return {
        "input": d.index((6,) if flat else (d.int(1, 3), d.int(1, 3)), 5),
        "weight": d.tensor((5, 3), dtype=dtype, plain=True),
        "offsets": d.index((1,), 1) if flat else None,
        "*mode": d.pick("sum", "mean", "max"),
    }


@calls("F.one_hot", F, order=0)
def one_hot(d):
    return {"/tensor": d.index(d.full_shape(0), 4), "num_classes": d.maybe(0.6, d.pick(4, 5, -1))}


@calls("F.scaled_dot_product_attention", F, weight=3, order=2, tolerance=20)
def attention(d):
    n, h, q, k, e = d.int(1, 2), d.pick(1, 2, 4), d.int(1, 4), d.int(1, 4), d.int(1, 4)
    dtype = d.pick("float32", "float64", "float32", "bfloat16")
    gqa = h == 4 and d.chance(0.5)
    shape = lambda length, heads=h: (n, heads, length, e)
    causal = d.chance(0.3)
    mask = (
        OMIT if causal else d.maybe(0.5, d.pick(d.tensor((q, k), dtype="bool", grad=False), d.tensor((n, 1, q, k), dtype=dtype)))
    )
    return {
        "query": d.tensor(shape(q), dtype=dtype),
        "key": d.tensor(shape(k, 2 if gqa else h), dtype=dtype),
        "value": d.tensor(shape(k, 2 if gqa else h), dtype=dtype),
        "*attn_mask": mask,
        "*is_causal": True if causal else OMIT,
        "*scale": d.maybe(0.3, 0.7),
        "*enable_gqa": True if gqa else OMIT,
    }


def _filled(lib, module, weights, start=0):
    """The module with its parameters taken from one vector."""
    for p in module.parameters():
        n = p.numel()
        chosen = weights[[k % weights.numel() for k in range(start, start + n)]]
        p.requires_grad_(False)
        p.copy_(chosen.detach().reshape(p.shape))
        start += n
    return module


def recurrent(lib, name, x, weights, options):
    module = _filled(lib, getattr(lib.nn, name)(x.shape[-1], 3, **options).to(x.dtype), weights)
    out, state = module(x)
    return (out, *state) if isinstance(state, tuple) else (out, state)


@calls(recurrent, order=2, weight=3, tolerance=30)
def recurrent_layers(d):
    name = d.pick("LSTM", "GRU", "RNN")
    options = {"num_layers": d.int(1, 2), "bidirectional": d.chance(0.4), "batch_first": d.chance(0.5), "bias": d.chance(0.7)}
    if name == "LSTM" and d.chance(0.3):
        options["proj_size"] = 2
    if name == "RNN":
        options["nonlinearity"] = d.pick("tanh", "relu")
    x = d.tensor((d.int(1, 4), d.int(1, 2), 2) if d.chance(0.8) else (d.int(1, 3), 2), dtype=d.pick(*REAL))
    return {"/n": name, "/x": x, "/w": d.tensor((37,), dtype=x.dtype, values="open", grad=False), "/o": options}


def cell(lib, name, x, weights):
    module = _filled(lib, getattr(lib.nn, name)(x.shape[-1], 3).to(x.dtype), weights)
    out = module(x)
    return module(x, out)


@calls(cell, order=2, tolerance=30)
def cells(d):
    x = d.tensor((d.int(1, 3), 2) if d.chance(0.8) else (2,), dtype=d.pick(*REAL))
    return {
        "/n": d.pick("LSTMCell", "GRUCell", "RNNCell"),
        "/x": x,
        "/w": d.tensor((37,), dtype=x.dtype, values="open", grad=False),
    }


def multihead(lib, x, y, weights, options, given):
    module = _filled(lib, lib.nn.MultiheadAttention(4, 2, **options).to(x.dtype), weights)
    return module(x, y, y, **given)


@calls(multihead, order=1, tolerance=30)
def multihead_attention(d):
    first = d.chance(0.5)
    n, q, k = 2, d.int(1, 3), d.int(1, 3)
    x = d.tensor((n, q, 4) if first else (q, n, 4), dtype=d.pick(*REAL))
    y = d.tensor((n, k, 4) if first else (k, n, 4), dtype=x.dtype)
    options = {"batch_first": first, "bias": d.chance(0.7), "add_bias_kv": d.chance(0.2), "add_zero_attn": d.chance(0.2)}
    given = {"need_weights": d.chance(0.6), "average_attn_weights": d.chance(0.6)}
    return {"/x": x, "/y": y, "/w": d.tensor((37,), dtype=x.dtype, values="open", grad=False), "/o": options, "/g": given}


def stepped(lib, name, x, g, options):
    p = lib.nn.Parameter(x.detach().clone())
    optimizer = getattr(lib.optim, name)([p], **options)
    for k in range(3):
        p.grad = g * (k + 1)
        optimizer.step()
    return p.detach()


@calls(stepped, order=0, weight=2, tolerance=50)
def optimizers(d):
    name = d.pick("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")
    options = {"lr": d.pick(0.1, 0.01)}
    if name != "Rprop":
        options["weight_decay"] = d.pick(0.0, 0.127)  # (cancels no gradient)
    if name == "SGD":
        options.update(momentum=d.pick(0.0, 0.9), maximize=d.chance(0.3))
        options.update(nesterov=options["momentum"] > 0 and d.chance(0.5))
    if name in ("Adam", "AdamW"):
        options.update(amsgrad=d.chance(0.4), betas=d.pick((0.9, 0.999), (0.8, 0.95)), maximize=d.chance(0.3))
    if name == "RMSprop":
        options.update(centered=d.chance(0.4), momentum=d.pick(0.0, 0.9))
    x = d.tensor(d.shape(), dtype=d.pick(*REAL), grad=False)
    return {"/n": name, "/x": x, "/g": d.like(x), "/o": options}


# -- random numbers: how they are distributed

# with the mean and the deviation that 4000 of them should have
DRAWS = {
    "rand": (lambda lib, x: lib.rand(4000, dtype=x.dtype), 0.5, 0.2887),
    "randn": (lambda lib, x: lib.randn(40, 100, dtype=x.dtype), 0.0, 1.0),
    "randint": (lambda lib, x: lib.randint(-3, 9, (4000,)), 2.5, 3.452),
    "randperm": (lambda lib, x: lib.randperm(4000), 1999.5, 1154.7),
    "random_": (lambda lib, x: lib.empty_like(x).random_(2, 10), 5.5, 2.291),
    "uniform_": (lambda lib, x: lib.empty_like(x).uniform_(-1, 3), 1.0, 1.1547),
    "normal_": (lambda lib, x: lib.empty_like(x).normal_(1, 2), 1.0, 2.0),
    "normal": (lambda lib, x: lib.normal(x, x / 2), 1.5, 0.75),
    "exponential_": (lambda lib, x: lib.empty_like(x).exponential_(2.0), 0.5, 0.5),
    "bernoulli": (lambda lib, x: lib.bernoulli(x / 3), 0.5, 0.5),
    "bernoulli_": (lambda lib, x: lib.empty_like(x).bernoulli_(0.3), 0.3, 0.4583),
    "multinomial": (lambda lib, x: lib.multinomial(lib.tensor([0.1, 0.6, 0.3], dtype=x.dtype), 4000, replacement=True), 1.2, 0.6),
    "dropout": (lambda lib, x: lib.nn.functional.dropout(x, 0.3), 1.5, 0.982),
    "gamma": (lambda lib, x: lib.distributions.Gamma(x, x).rsample(), 1.0, 0.8165),
}


def drawn(lib, name, x, seed):
    """How far mean and deviation of 4000 numbers are from what they should be, and the mean of their gradient, in standard
    errors of a mean; none of the numbers, for the type."""
    lib.manual_seed(seed)
    draw, mean, deviation = DRAWS[name]
    x = (x * 0 + 1.5).expand(4000).clone().requires_grad_(name in ("dropout", "gamma"))
    found = draw(lib, x)
    slope = 0.0
    if found.requires_grad:
        found.sum().backward()
        slope = (x.grad.float().mean() - (name == "dropout")) * 4000**0.5
    wide, error = found.detach().float().flatten(), deviation / 4000**0.5
    return found.flatten()[:0], (wide.mean() - mean) / error, (wide.std() - deviation) / error, slope


@calls(drawn, order=0, weight=2, within=6.0)
def draws(d):
    return {"/n": d.pick(*DRAWS), "/x": d.tensor((1,), dtype=d.pick(*REAL), grad=False), "/s": d.int(0, 10**6)}


def eigenvalues_apart(lib, A):
    """Of a matrix with discs that do not meet (Gershgorin): eigenvalues that do have no slope."""
    return lib.linalg.eigvals(A + lib.diag(lib.arange(A.shape[-1], dtype=A.dtype) * 40))


@calls(eigenvalues_apart, order=1, tolerance=200, invariant=lambda lib, r: (r.sum(), (r * r).sum(), r.abs().sort().values))
def eigenvalues(d):
    """Their order is not unique."""
    n = d.int(1, 3)
    return {"/A": d.tensor((n, n), dtype=d.pick(*REAL), plain=True, values="regular")}
