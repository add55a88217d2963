"""`torch.func`, `autograd.functional` and leaves that a compiled function makes for itself: one graph, eager's values and
gradients; what of it is seen outside, is a counted break."""

import pytest

import flambeau as torch
from flambeau import func, nn
from flambeau.autograd import functional
from flambeau.runtime import counters

from .harness import captured, check  # noqa: F401

torch.manual_seed(1)
X, V = torch.randn(4, 3), torch.randn(3)
NET = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def cube(t):
    return (t**3).sum()


OUTSIDE, MAPPED = func.grad(cube), func.vmap(lambda t: t.cumsum(0))


def of_parameters(x):
    given = {k: p.detach() for k, p in NET.named_parameters()}
    return func.grad(lambda p: func.functional_call(NET, p, (x,)).pow(2).sum())(given)


def per_example(x):
    given = {k: p.detach() for k, p in NET.named_parameters()}

    def loss(p, row):
        return func.functional_call(NET, p, (row.unsqueeze(0),)).pow(2).sum()

    return func.vmap(func.grad(loss), in_dims=(None, 0))(given, x)


def pulled(x):
    out, pull = func.vjp(torch.sin, x)
    return out, pull(torch.ones_like(x))


def linear(x):
    out, push = func.linearize(torch.sin, x)
    return out, push(torch.ones_like(x))


def stacked(x):
    return func.vmap(lambda row: (row.sum(), {"twice": row * 2}), out_dims=(0, {"twice": 1}))(x)


def refused(x):
    try:
        return func.grad(lambda t: t * 2)(x)
    except RuntimeError as error:
        return str(error)


def random_in_vmap(x):
    try:
        return func.vmap(lambda row: row + torch.rand(3))(x)
    except RuntimeError as error:
        return str(error)


TRANSFORMS = {
    "grad": lambda x: func.grad(cube)(x),
    "grad_and_value": lambda x: func.grad_and_value(cube)(x),
    "auxiliary": lambda x: func.grad(lambda t: (cube(t), t + 1), has_aux=True)(x),
    "argnums": lambda x: func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x * 2),
    "grad of grad": lambda x: func.grad(lambda a: func.grad(cube)(a).sum())(x),
    "made outside": lambda x: OUTSIDE(x),
    "parameters": of_parameters,
    "per example": per_example,
    "vjp": pulled,
    "jvp": lambda x: func.jvp(torch.sin, (x,), (torch.ones_like(x),)),
    "hessian times vector": lambda x: func.jvp(func.grad(cube), (x,), (x,))[1],
    "linearize": linear,
    "jacrev": lambda x: func.jacrev(lambda t: (t**2).sum(0))(x),
    "jacfwd": lambda x: func.jacfwd(lambda t: (t**2).sum(0))(x),
    "hessian": lambda x: func.hessian(cube)(x[0]),
    "laplacian": lambda x: func.vmap(lambda row: func.hessian(lambda t: NET(t).sum())(row).diagonal().sum())(x),
    "vmap": lambda x: func.vmap(lambda a, b: a @ b, in_dims=(0, None))(x, V),
    "vmap of vmap": lambda x: func.vmap(func.vmap(lambda t: t * 2 + 1))(x),
    "vmap of a module": lambda x: func.vmap(NET)(x),
    "vmap of a nest": stacked,
    "vmap made outside": lambda x: MAPPED(x),
    "vmap draws": lambda x: func.vmap(lambda row: row + torch.rand(3), randomness="different")(x),
    "vmap refuses draws": random_in_vmap,
    "refused": refused,
    "functional.jacobian": lambda x: functional.jacobian(lambda t: t.pow(2).sum(1), x),
    "functional.hessian": lambda x: functional.hessian(cube, x[0]),
    "functional.hvp": lambda x: functional.hvp(cube, x, torch.ones_like(x)),
    "functional.vjp": lambda x: functional.vjp(torch.exp, x, torch.ones_like(x)),
    "functional.jvp": lambda x: functional.jvp(torch.exp, x, torch.ones_like(x)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_captured(name):
    check(TRANSFORMS[name], X)


# -- leaves of the program's own


def penalty(x):
    """The gradient penalty of a critic."""
    mixed = (x * 0.5).detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(NET(mixed).sum(), mixed, create_graph=True)
    return ((slope.double().norm(2, 1) - 1) ** 2).mean()  # (a small call adds up in double, the graph's op in the type)


def residual(x):
    """A differential equation's."""
    x = x.clone().requires_grad_(True)
    u = NET(x)
    (first,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
    return (second[:, 0] + u[:, 0]).pow(2).mean()


def adapted(x):
    """The loss after a step of gradient descent."""
    given = dict(NET.named_parameters())
    loss = func.functional_call(NET, given, (x,)).pow(2).mean()
    grads = torch.autograd.grad(loss, tuple(given.values()), create_graph=True)
    given = {k: p - 0.1 * g for (k, p), g in zip(given.items(), grads)}
    return func.functional_call(NET, given, (x,)).pow(2).mean()


def through_a_transform(x):
    return func.grad(lambda t: NET(t).pow(2).sum())(x).pow(2).sum()


def score(x):
    x = x.detach()
    x.requires_grad = True
    (x.sin() * 2).sum().backward()
    return x.grad


def sampled(x):
    with torch.no_grad():
        for _ in range(2):
            with torch.enable_grad():
                here = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(NET(here).sum(), here)
            x = x - 0.1 * slope
    return x


def descent(x):
    w = torch.zeros(3, requires_grad=True)
    for _ in range(3):
        (g,) = torch.autograd.grad(((x * w - 1) ** 2).sum(), w)
        with torch.no_grad():
            w -= 0.1 * g
    return w.detach()


def from_numbers(x):
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return torch.autograd.grad(((x + w) ** 2).sum(), w)[0]


def asked(x):
    y = (x * 2).requires_grad_()
    return x * 2 if y.is_leaf and y.requires_grad else x


@pytest.mark.parametrize(
    "fn",
    [penalty, residual, adapted, through_a_transform, score, sampled, descent, from_numbers, asked],
    ids=lambda fn: fn.__name__,
)
def test_leaves_of_its_own_are_captured(fn):
    check(fn, X)


@pytest.mark.parametrize(
    "fn, backend",
    [
        *((fn, "aot_eager") for fn in (penalty, residual, adapted, through_a_transform)),
        (penalty, "inductor"),
        (residual, "inductor"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_gradients_of_parameters_go_on_behind_them(fn, backend):
    def gradients(run):
        NET.zero_grad()
        loss = run(X)
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in NET.parameters() if p.grad is not None)]

    expected = gradients(fn)
    found = gradients(torch.compile(fn, backend=backend, fullgraph=True))
    assert len(found) == len(expected) > 3 and all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, found))
    assert counters.snapshot()["graphs"] == 1


def test_gradients_of_the_argument_go_on():
    check(lambda x: func.grad(cube)(x).sum().backward() or x.grad, X.clone().requires_grad_())


# -- seen outside


def returned(x):
    y = (x + 1).requires_grad_()
    return y * 2


def result_returned(x):
    y = (x + 1).requires_grad_()
    loss = (y * y).sum()
    return torch.autograd.grad(loss, y, retain_graph=True)[0], loss


def differentiated_and_returned(x):
    y = (x + 1).requires_grad_()
    (y * y).sum().backward()
    return y, y.grad


def new(x):
    return torch.ones(3, requires_grad=True), torch.tensor([1.0], requires_grad=True), x + 1


def kept_by_the_function(x):
    kept = []

    def fn(t):
        kept.append(t)
        return cube(t)

    return func.grad(fn)(x), kept[0]


def printed(x):
    def fn(t):
        print("now")
        return cube(t)

    return func.grad(fn)(x) * 2


def alive_over_a_break(x):
    y = (x + 1).requires_grad_()
    print("now")
    return torch.autograd.grad(cube(y), y)[0]


def many(x):
    return func.vmap(lambda row: row.relu().sum())(torch.cat([x] * 17)) * 2


def same_numbers(x):
    return func.vmap(lambda row: row + torch.rand(3), randomness="same")(x) * 2


SEEN = [
    (returned, {"metadata": 1}),
    (result_returned, {"metadata": 1}),
    (differentiated_and_returned, {"metadata": 1}),
    (new, {"metadata": 2}),
    (kept_by_the_function, {"metadata": 1}),
    (printed, {"print": 2}),
    (alive_over_a_break, {"metadata": 1, "print": 1}),
    (many, {"long loop": 1}),
    (same_numbers, {"builtin": 1}),
]


@pytest.mark.parametrize("fn, breaks", SEEN, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_seen_outside_is_python_s(fn, breaks):
    found = check(fn, X, graphs=None, breaks=breaks, recompiles=None)
    results, plain = torch.compile(fn, backend="eager")(X), fn(X)
    for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (results, plain))):
        assert (a.is_leaf, a.requires_grad) == (b.is_leaf, b.requires_grad)
    assert found.graphs or fn is new
