"""Programs for the listed names of training:
optimizers, schedules, data, distributions, derivatives (see listed.py for the form)."""

TEXT = """
torch.optim.SGD torch.optim.Optimizer: r = steps(lambda p: t.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01))
    o = t.optim.SGD([leaf(2)], 0.1); r += [isinstance(o, t.optim.Optimizer), sorted(o.state_dict()), sorted(o.param_groups[0])]
torch.optim.Adam torch.optim.AdamW:
    r = steps(lambda p: t.optim.Adam(p, 0.1, amsgrad=True)) + steps(lambda p: t.optim.AdamW(p, 0.1, betas=(0.8, 0.9)))
torch.optim.Adagrad torch.optim.Adadelta:
    r = steps(lambda p: t.optim.Adagrad(p, 0.1, lr_decay=0.1)) + steps(lambda p: t.optim.Adadelta(p, 0.5))
torch.optim.ASGD torch.optim.RAdam: r = steps(lambda p: t.optim.ASGD(p, 0.1, t0=2)) + steps(lambda p: t.optim.RAdam(p, 0.1), 8)
torch.optim.Adafactor: r = steps(lambda p: t.optim.Adafactor(p, 0.1, weight_decay=0.01))
    r += steps(lambda p: t.optim.Adafactor(p, eps=(1e-4, 0.1), d=2.0, maximize=True))
torch.optim.Muon: p = nn.Parameter(filled(6, 4)); o = t.optim.Muon([p], 0.1); q = nn.Parameter(filled(3, 5))
    n = t.optim.Muon([q], 0.1, nesterov=False, ns_steps=3, adjust_lr_fn="match_rms_adamw")
    for k in range(3):
        o.zero_grad(); n.zero_grad(); ((p - k) ** 3).sum().backward(); ((q - k) ** 2).mean().backward(); o.step(); n.step()
    r = [(p * 20).round(), (q * 20).round(), sorted(o.state[p])]
torch.optim.RMSprop: r = steps(lambda p: t.optim.RMSprop(p, 0.1, centered=True, momentum=0.5))
torch.optim.LBFGS: p = nn.Parameter(filled(4)); o = t.optim.LBFGS([p], lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    def closure():
        o.zero_grad(); loss = ((p - t.arange(4.0)) ** 4).sum(); loss.backward(); return loss
    r = [float(o.step(closure)), p]
torch.optim.SparseAdam:
    o = t.optim.SparseAdam([leaf(3)], lr=0.1); (o.param_groups[0]["params"][0] * 2).sum().backward(); r = [sorted(o.defaults)]
    try: o.step()
    except RuntimeError as error: r += ["refused"]
torch.optim.lr_scheduler.OneCycleLR: r = rates(lambda o: S.OneCycleLR(o, 1.0, total_steps=9, pct_start=0.4), 8)
torch.optim.lr_scheduler.LambdaLR: r = rates(lambda o: S.LambdaLR(o, lambda k: 0.9 ** k))
torch.optim.lr_scheduler.CosineAnnealingLR: r = rates(lambda o: S.CosineAnnealingLR(o, 4, eta_min=0.1))
torch.optim.lr_scheduler.SequentialLR:
    r = rates(lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.5)], [3]))
torch.optim.lr_scheduler.StepLR torch.optim.lr_scheduler.MultiStepLR:
    r = rates(lambda o: S.StepLR(o, 2, 0.3)) + rates(lambda o: S.MultiStepLR(o, [1, 4], 0.3))
torch.optim.lr_scheduler.ExponentialLR: r = rates(lambda o: S.ExponentialLR(o, 0.7))
torch.optim.lr_scheduler.ReduceLROnPlateau:
    o = t.optim.SGD([leaf(2)], 1.0); s = S.ReduceLROnPlateau(o, patience=1, cooldown=1, factor=0.5); r = []
    for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        s.step(loss); r += [o.param_groups[0]["lr"]]
torch.optim.lr_scheduler._LRScheduler torch.optim.lr_scheduler.LRScheduler:
    class Halved(S._LRScheduler):
        def get_lr(self): return [b / 2 ** self.last_epoch for b in self.base_lrs]
    r = rates(Halved) + [issubclass(S._LRScheduler, S.LRScheduler) or issubclass(S.LRScheduler, S._LRScheduler),
         issubclass(S.StepLR, S.LRScheduler)]
torch.cuda.amp.GradScaler torch.amp.GradScaler:
    s = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2); p = nn.Parameter(filled(3)); o = t.optim.SGD([p], 0.1)
    for k in range(3):
        o.zero_grad(); s.scale((p * p).sum()).backward(); s.unscale_(o); s.step(o); s.update()
    r = [p, s.get_scale(), s.is_enabled(), t.cuda.amp.GradScaler(enabled=False).is_enabled(), sorted(s.state_dict())]

torch.utils.data.Dataset torch.utils.data.DataLoader torch.utils.data.dataloader.DataLoader: D = t.utils.data
    class Squares(D.Dataset):
        def __len__(self): return 5
        def __getitem__(self, k): return {"x": t.tensor([float(k)]), "y": k * k}
    r = [list(D.DataLoader(Squares(), batch_size=2)), len(D.DataLoader(Squares(), 2, drop_last=True)),
         D.dataloader.DataLoader is D.DataLoader]
torch.utils.data.TensorDataset torch.utils.data.ConcatDataset torch.utils.data.Subset torch.utils.data.random_split:
    D = t.utils.data
    d = D.TensorDataset(X, LABELS); both = D.ConcatDataset([d, D.Subset(d, [2, 0])])
    parts = D.random_split(range(10), [7, 3], generator=t.Generator())
    r = [len(both), both[3], both[-1], [len(p) for p in parts], sorted(e for p in parts for e in p)]
torch.utils.data.RandomSampler torch.utils.data.BatchSampler torch.utils.data.sampler.Sampler:
    D = t.utils.data; s = D.RandomSampler(range(6))
    r = [sorted(s), len(s), list(D.BatchSampler(range(5), 2, False)), isinstance(s, D.sampler.Sampler)]
torch.utils.data.DistributedSampler torch.utils.data.distributed.DistributedSampler:
    D = t.utils.data; s = D.DistributedSampler(range(7), 2, 1, shuffle=False)
    r = [list(s), len(s), D.distributed.DistributedSampler is D.DistributedSampler]; s = D.DistributedSampler(range(8), 2, 0)
    s.set_epoch(3); r += [len(set(s))]

torch.distributions.Categorical torch.distributions.categorical.Categorical: C = t.distributions.Categorical; d = C(logits=X)
    r = [d.probs, d.entropy(), d.log_prob(LABELS % 4), d.sample((5,)).shape, t.distributions.categorical.Categorical is C,
         d.batch_shape]
torch.distributions.Normal torch.distributions.normal.Normal torch.distributions.kl_divergence:
    D = t.distributions; m = leaf(3, 4); d = D.Normal(m, Y.exp())
    k = D.kl_divergence(d, D.Normal(0.0, 1.0))
    r = [d.log_prob(X), d.entropy(), d.cdf(X), k, t.autograd.grad(k.sum(), m), d.rsample().requires_grad]
    r += [D.normal.Normal is D.Normal, near(D.Normal(t.full((4000,), 2.0), 1.0).sample().mean(), 2.0)]
torch.distributions.bernoulli.Bernoulli torch.distributions.Beta:
    D = t.distributions; d = D.bernoulli.Bernoulli(X.sigmoid()); b = D.Beta(Y.exp(), X.exp())
    r = [d.log_prob((X > 0).float()), d.entropy(), d.mean, d.variance, b.log_prob(X.sigmoid()), b.mean, b.entropy(),
         near(D.Beta(t.full((4000,), 2.0), 2.0).sample().mean(), 0.5)]
torch.distributions.MultivariateNormal:
    d = t.distributions.MultivariateNormal(X[0], X.T @ X + t.eye(4))
    r = [d.log_prob(X), d.entropy(), d.variance, d.sample((2,)).shape]

torch.autograd.grad torch.autograd.Variable:
    x = leaf(3); a, = t.autograd.grad((x ** 3).sum(), x, create_graph=True); b, = t.autograd.grad(a.sum(), x)
    v = t.autograd.Variable(X, requires_grad=True); r = [a, b, v.requires_grad, isinstance(v, t.Tensor)]
torch.autograd.Function:
    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x); ctx.scale = scale
            return x ** 3 * scale
        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * 3 * x * x * ctx.scale, None
    x = leaf(3, 4); y = Cube.apply(x, 2.0); y.sum().backward(); r = [y, x.grad]
torch.func.vmap op:vmap torch.func.grad_and_value torch.func.functional_call:
    m = fill(nn.Linear(4, 2)); params = dict(m.named_parameters())
    def loss(params, x): return t.func.functional_call(module=m, parameter_and_buffer_dicts=params, args=(x,)).square().sum()
    g, v = t.func.grad_and_value(loss)(params, X); per = t.func.vmap(lambda p, x: loss(p, x), in_dims=(None, 0))(params, X)
    r = [g["weight"], g["bias"], v, per, t.vmap(lambda a, b: a @ b)(X, Y)]
torch.autograd.profiler.profile torch.autograd.profiler.record_function: P = t.autograd.profiler
    with P.profile() as p:
        with P.record_function("mine"): y = X @ X.T
    r = [y, "mine" in [e.key for e in p.key_averages()], "mine" in p.key_averages().table()]
"""
