"""Autograd, training and data (items 54-60)."""

import warnings

import pytest


def test_54_custom_functions(lib):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, power):
            ctx.save_for_backward(x)
            ctx.power = power
            return x**power

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return g * ctx.power * x ** (ctx.power - 1), None

    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(x, 3)
    assert y.grad_fn.name() == type(y.grad_fn).__name__ == "CubeBackward"
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), x)
    assert g.tolist() == [3, 12] and h.tolist() == [6, 12]


def test_54_marks(lib):
    seen = []

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x * 1, x * 2
            ctx.mark_non_differentiable(b)
            ctx.set_materialize_grads(False)
            return a, b

        @staticmethod
        def backward(ctx, ga, gb):
            seen.append(gb)
            return ga

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = lib.ones(2, requires_grad=True)
    a, b = Two.apply(x)
    a.sum().backward()
    assert not b.requires_grad and seen == [None] and x.grad.tolist() == [1, 1]
    y = x * 1
    assert Twice.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Twice.apply(x)


def test_54_wrong_answers(lib):
    def function(answer):
        class F(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return answer(g)

        F.apply(lib.ones(2, requires_grad=True), 2).sum().backward()

    function(lambda g: (g, None, None))
    with pytest.raises(RuntimeError, match=r"returned an incorrect number of gradients \(expected 2, got 1\)"):
        function(lambda g: g)
    with pytest.raises(RuntimeError, match="returned a gradient different than None at position 2"):
        function(lambda g: (g, g))
    with pytest.raises(RuntimeError, match=r"returned an invalid gradient at index 0 - got \[3\] but expected shape"):
        function(lambda g: (lib.ones(3), None))
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got int\)"):
        function(lambda g: (3, None))


def test_54_backward_within_backward(lib):
    class Reversible(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.rng, ctx.x = lib.get_rng_state(), x.detach()
            return lib.nn.functional.dropout(x.detach()) * 2

        @staticmethod
        def backward(ctx, g):
            now = lib.get_rng_state()
            with lib.enable_grad():
                lib.set_rng_state(ctx.rng)
                x = ctx.x.requires_grad_()
                lib.autograd.backward(lib.nn.functional.dropout(x) * 2, g)
            lib.set_rng_state(now)
            return x.grad

    x = lib.ones(100, requires_grad=True)
    y = Reversible.apply(x)
    y.sum().backward()
    assert lib.equal(x.grad, y.detach())


def test_54_setup_context_and_once_differentiable(lib, sub):
    function = sub("autograd.function")

    class F(lib.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        @function.once_differentiable
        def backward(ctx, g):
            return g * ctx.k, None

    x, g = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    y = F.apply(x, 5)
    (found,) = lib.autograd.grad(y, x, g, create_graph=True)
    assert found.tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"):
        found.sum().backward()


def test_55_grad(lib):
    x, y = lib.tensor([1.0, 2.0], requires_grad=True), lib.ones(2, requires_grad=True)
    z = x**3
    (g,) = lib.autograd.grad(z, x, lib.tensor([1.0, 10.0]), create_graph=True)
    assert g.tolist() == [3, 120]
    (g.sum() * 2).backward()
    assert x.grad.tolist() == [12, 240]
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph. Set allow_unused=True"):
        lib.autograd.grad((x * 2).sum(), [x, y])
    found = lib.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)
    assert found[0].tolist() == [2, 2] and found[1] is None
    assert lib.autograd.grad((x * 2).sum(), [y], materialize_grads=True)[0].tolist() == [0, 0]
    (rows,) = lib.autograd.grad(x * x, x, lib.eye(2), is_grads_batched=True)
    assert rows.tolist() == [[2, 0], [0, 4]]


def test_55_errors_of_backward(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(
        RuntimeError,
        match=r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[3\]\) and "
        r"output\[0\] has a shape of torch.Size\(\[2\]\)",
    ):
        (x * 2).backward(lib.ones(3))
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        lib.ones(1).backward()


def test_55_inputs_and_order_of_hooks(lib):
    order = []
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: order.append("tensor"))
    y.retain_grad()
    y.grad_fn.register_prehook(lambda g: order.append("pre"))
    y.grad_fn.register_hook(lambda gi, go: order.append("post"))
    leaf = y.grad_fn.next_functions[0][0]
    assert leaf.variable is x and leaf is (x * 3).grad_fn.next_functions[0][0] and leaf.next_functions == ()
    x.register_hook(lambda g: order.append("leaf"))
    leaf.register_prehook(lambda g: order.append("leaf pre"))
    leaf.register_hook(lambda gi, go: order.append(("leaf post", x.grad.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: order.append("accumulated"))
    y.sum().backward(retain_graph=True)
    assert order == ["tensor", "pre", "post", "leaf", "leaf pre", "accumulated", ("leaf post", [2, 2])]
    order.clear()
    lib.autograd.grad(y.sum(), y, retain_graph=True)
    assert order == ["tensor"]
    order.clear()
    x.grad = y.grad = None
    y.sum().backward(inputs=[y])
    assert y.grad.tolist() == [1, 1] and x.grad is None and order == ["tensor", "pre", "post"]


def test_55_graph(lib, sub):
    graph = sub("autograd.graph")
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    assert y.grad_fn.name() == "MulBackward0" and isinstance(y.grad_fn, graph.Node) and y.output_nr == 0
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1} and x.grad_fn is None and x.is_leaf and not y.is_leaf
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    assert lib.autograd.grad(edge, graph.get_gradient_edge(x), lib.ones(2), retain_graph=True)[0].tolist() == [2, 2]
    packed = []

    def pack(t):
        packed.append(t)
        return len(packed) - 1

    with graph.saved_tensors_hooks(pack, lambda k: packed[k]):
        z = x * x
    (g,) = lib.autograd.grad(z.sum(), x, create_graph=True)
    assert lib.autograd.grad(g.sum(), x)[0].tolist() == [2, 2] and len(packed) == 2
    with graph.save_on_cpu():
        x.exp().sum().backward()
    seen = []
    handle = graph.register_multi_grad_hook([x, y], lambda grads: seen.append([g is None for g in grads]))
    (y * 1).sum().backward()
    handle.remove()
    assert seen == [[False, False]]
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with graph.saved_tensors_hooks(pack, pack):
            pass


def test_55_grad_modes(lib):
    x = lib.ones(1, requires_grad=True)
    with lib.no_grad():
        assert not (x * 2).requires_grad and not lib.is_grad_enabled()
        with lib.enable_grad():
            assert (x * 2).requires_grad
        with lib.inference_mode(False):
            assert lib.is_grad_enabled()
    with lib.inference_mode():
        assert lib.is_inference_mode_enabled() and not (x * 2).requires_grad

    @lib.no_grad()
    def f():
        return lib.is_grad_enabled()

    @lib.inference_mode()
    def g():
        return lib.is_inference_mode_enabled()

    @lib.no_grad()
    def numbers():
        yield lib.is_grad_enabled()
        yield lib.is_grad_enabled()

    assert not f() and g() and list(numbers()) == [False, False] and lib.is_grad_enabled()
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()
    lib.set_grad_enabled(False)
    assert not lib.is_grad_enabled()
    lib.set_grad_enabled(True)


def test_55_anomaly_mode(lib):
    x = lib.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with lib.autograd.detect_anomaly():
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                lib.sqrt(x).sum().backward()
    text = "".join(str(w.message) for w in told)
    assert "Anomaly Detection has been enabled" in text
    assert "Traceback of forward call that caused the error" in text and "lib.sqrt(x)" in text
    with lib.autograd.set_detect_anomaly(True, check_nan=False):
        lib.sqrt(x).sum().backward()
    assert x.grad.isnan().all()


def test_55_functional(lib, sub):
    F = sub("autograd.functional")
    x = lib.tensor([1.0, 2.0])
    assert F.jacobian(lambda x: x**2, x).tolist() == [[2, 0], [0, 4]]
    assert F.hessian(lambda x: (x**3).sum(), x).tolist() == [[6, 0], [0, 12]]
    assert F.vjp(lambda x: x**2, x, lib.ones(2))[1].tolist() == [2, 4]
    assert F.jvp(lambda x: x**2, x, lib.tensor([1.0, 10.0]))[1].tolist() == [2, 40]
    assert F.hvp(lambda x: (x**3).sum(), x, lib.ones(2))[1].tolist() == [6, 12]
    both = F.jacobian(lambda a, b: (a * b, a), (x, x))
    assert both[0][1].tolist() == [[1, 0], [0, 2]] and both[1][1].tolist() == [[0, 0], [0, 0]]
    assert lib.autograd.gradcheck(lambda x: x.sin(), (x.double().requires_grad_(),))
    assert lib.autograd.gradgradcheck(lambda x: x.sin(), (x.double().requires_grad_(),))


def test_55_func(lib, sub):
    f = sub("func")
    x = lib.tensor([1.0, 2.0])
    assert f.grad(lambda x: (x**3).sum())(x).tolist() == [3, 12]
    assert f.grad(lambda x: f.grad(lambda x: (x**3).sum())(x).sum())(x).tolist() == [6, 12]
    value, pull = f.vjp(lambda x: x**2, x)
    assert value.tolist() == [1, 4] and pull(lib.ones(2))[0].tolist() == [2, 4]
    assert f.jvp(lambda x: x**2, (x,), (lib.ones(2),))[1].tolist() == [2, 4]
    assert f.jacrev(lambda x: x**2)(x).tolist() == f.jacfwd(lambda x: x**2)(x).tolist() == [[2, 0], [0, 4]]
    assert f.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]
    g, (value, aux) = f.grad_and_value(lambda x, k: ((x * k).sum(), x), has_aux=True)(x, 2)
    assert g.tolist() == [2, 2] and value == 6 and aux.tolist() == [1, 2] and not g.requires_grad
    assert f.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None))(lib.ones(3, 2), x).tolist() == [3, 3, 3]
    assert f.vmap(f.grad(lambda x: (x**2).sum()))(lib.ones(3, 2)).tolist() == [[2, 2]] * 3
    module = lib.nn.Linear(2, 1, bias=False)
    assert f.functional_call(module, {"weight": lib.ones(1, 2)}, (x,)).tolist() == [3]


def test_56_checkpoint(lib, sub):
    checkpoint = sub("utils.checkpoint")
    nn = lib.nn
    lib.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Tanh())
    data = lib.randn(3, 4)

    def gradients(run):
        net.zero_grad()
        lib.manual_seed(1)
        x = data.clone().requires_grad_()
        run(x).pow(2).sum().backward()
        return [p.grad for p in net.parameters()] + [x.grad]

    plain = gradients(net)
    inner, outer = net[:3], net[3:]
    runs = {
        "without reentry": lambda x: checkpoint.checkpoint(net, x, use_reentrant=False),
        "with reentry": lambda x: checkpoint.checkpoint(net, x, use_reentrant=True),
        "sequential": lambda x: checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False),
        "nested": lambda x: checkpoint.checkpoint(
            lambda y: outer(checkpoint.checkpoint(inner, y, use_reentrant=False)), x, use_reentrant=False
        ),
        "nested with reentry": lambda x: checkpoint.checkpoint(
            lambda y: outer(checkpoint.checkpoint(inner, y, use_reentrant=True)), x, use_reentrant=True
        ),
    }
    for name, run in runs.items():
        for a, b in zip(plain, gradients(run)):
            assert lib.allclose(a, b, atol=1e-6), name


def test_56_checkpoint_details(lib, sub):
    checkpoint = sub("utils.checkpoint").checkpoint
    x = lib.ones(2, requires_grad=True)
    calls = []

    def f(x, k=1):
        calls.append(lib.is_grad_enabled())
        return x.sin() * k

    y = checkpoint(f, x, use_reentrant=False, k=3)
    assert calls == [True]
    y.sum().backward()
    assert calls == [True, True]
    (g,) = lib.autograd.grad(checkpoint(lambda x: x**3, x, use_reentrant=False).sum(), x, create_graph=True)
    assert lib.autograd.grad(g.sum(), x)[0].tolist() == [6, 6]
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        lib.autograd.grad(checkpoint(f, x, use_reentrant=True).sum(), x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(f, x, use_reentrant=True, k=3)
    shapes = iter([(2,), (1, 2)])
    with pytest.raises(RuntimeError, match="different metadata than during the forward pass"):
        checkpoint(lambda x: x.reshape(next(shapes)).sin(), x, use_reentrant=False).sum().backward()


def test_56_rng_state(lib):
    state = lib.get_rng_state()
    a = lib.rand(3)
    lib.set_rng_state(state)
    assert lib.equal(lib.rand(3), a)
    generator = lib.Generator().manual_seed(3)
    b = lib.rand(2, generator=generator)
    assert lib.equal(b, lib.rand(2, generator=lib.Generator().manual_seed(3))) and generator.initial_seed() == 3


def test_57_autocast(lib, sub):
    F = sub("nn.functional")
    a = lib.ones(2, 2)
    with lib.autocast("cpu", dtype=lib.bfloat16):
        product = a @ a
        assert product.dtype == lib.bfloat16 and F.linear(a, a).dtype == lib.bfloat16
        assert F.softmax(product, -1).dtype == lib.bfloat16
        with lib.autocast("cpu", enabled=False):
            assert (a @ a).dtype == lib.float32
    assert (a @ a).dtype == lib.float32 and not lib.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = lib.amp.GradScaler(enabled=False)
    p = lib.nn.Parameter(lib.ones(1))
    optimizer = lib.optim.SGD([p], lr=1.0)
    scaler.scale((p * 2).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == -1


def test_58_optimizer_protocol(lib):
    p, q = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(1))
    optimizer = lib.optim.AdamW([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5]
    optimizer.param_groups[0]["lr"] = 0.0
    (p.sum() + q.sum()).backward()
    value = optimizer.step(lambda: p.sum() * 1)
    assert value == 2 and p in optimizer.state and set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq"}
    state = optimizer.state_dict()
    assert list(state["state"]) == [0, 1] and state["param_groups"][1]["params"] == [1]
    other = lib.optim.AdamW([{"params": [p]}, {"params": [q]}])
    other.load_state_dict(state)
    assert other.param_groups[1]["lr"] == 0.5 and lib.equal(other.state[q]["exp_avg"], optimizer.state[q]["exp_avg"])
    optimizer.add_param_group({"params": [lib.nn.Parameter(lib.ones(1))]})
    assert len(optimizer.param_groups) == 3
    norm = lib.nn.utils.clip_grad_norm_([p, q], 1.0)
    assert norm.item() == pytest.approx(3**0.5) and p.grad.norm() < 1


def test_58_own_optimizers_and_schedules(lib):
    class Own(lib.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @lib.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    m = self.state[p].setdefault("m", lib.zeros_like(p))
                    m.lerp_(p.grad, 0.5)
                    p.addcdiv_(m, lib.ones_like(p), value=-group["lr"])

    p = lib.nn.Parameter(lib.ones(1))
    optimizer = Own([p], 1.0)
    schedule = lib.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    rates = []
    for _ in range(3):
        optimizer.zero_grad()
        (p * 2).sum().backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert rates == [1.0, 0.5, 0.25] and schedule.last_epoch == 3 and schedule.get_last_lr() == [0.125]


class Squares:
    def __len__(self):
        return 7

    def __getitem__(self, k):
        return {"k": k, "square": float(k * k), "name": str(k)}


def test_59_loader(lib, sub):
    data = sub("utils.data")
    loader = data.DataLoader(Squares(), batch_size=3, drop_last=True)
    batches = list(loader)
    assert len(batches) == len(loader) == 2 and batches[0]["k"].tolist() == [0, 1, 2]
    assert batches[1]["square"].dtype == lib.float64 and batches[1]["name"] == ["3", "4", "5"]
    order = [b["k"].item() for b in data.DataLoader(Squares(), shuffle=True, generator=lib.Generator().manual_seed(0))]
    again = [b["k"].item() for b in data.DataLoader(Squares(), shuffle=True, generator=lib.Generator().manual_seed(0))]
    assert sorted(order) == list(range(7)) and order == again
    assert list(data.DataLoader(range(4), batch_size=2, collate_fn=sum)) == [1, 5]
    assert [b.tolist() for b in data.DataLoader(range(4), sampler=[3, 1], batch_size=2)] == [[3, 1]]
    assert [b["k"].tolist() for b in data.DataLoader(Squares(), batch_size=4, num_workers=2)] == [[0, 1, 2, 3], [4, 5, 6]]


def test_60_files(lib, tmp_path):
    shared = lib.arange(4.0)
    path = tmp_path / "state.pt"
    lib.save({"a": shared, "b": shared[1:3], "half": lib.ones(2, dtype=lib.bfloat16), "n": 3}, path)
    found = lib.load(path)
    assert found["b"].tolist() == [1, 2] and found["n"] == 3 and found["half"].dtype == lib.bfloat16
    found["a"][1] = 9
    assert found["b"][0] == 9
    assert lib.load(path, map_location="meta")["a"].is_meta
    model = lib.nn.Linear(2, 2)
    lib.save(model.state_dict(), path)
    assert list(lib.load(path, weights_only=True)) == ["weight", "bias"]
    lib.save(model, path)
    with pytest.raises(Exception, match="(?i)weights.only"):
        lib.load(path)
    assert isinstance(lib.load(path, weights_only=False), lib.nn.Linear)
