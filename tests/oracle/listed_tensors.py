"""Programs for the listed names of tensors, functions, types and settings (see listed.py for the form)."""

TEXT = """
Tensor.shape Tensor.ndim op:size op:dim op:numel op:nelement:
    r = [X.shape, X.ndim, X.size(), X.size(-1), X.dim(), X.numel(), X.nelement(), t.numel(X)]
Tensor.device op:device: r = [X.device, t.device("cpu"), t.device("cpu").type, X.device == t.device("cpu"), t.device("cuda", 1)]
Tensor.dtype torch.float32 torch.float torch.float64 torch.double torch.float16 torch.half torch.bfloat16:
    r = [X.dtype, t.float is t.float32, t.double is t.float64, t.half is t.float16, X.to(t.bfloat16), X.to(t.double),
         X.to(t.half)]
torch.long torch.int64 torch.int torch.int32 torch.int8 torch.uint8 torch.bool torch.uint16 torch.uint32:
    r = [t.long is t.int64, t.int is t.int32] + [I.to(d) for d in (t.int64, t.int32, t.int8, t.uint8, t.bool, t.uint16, t.uint32)]
torch.cfloat torch.complex64 op:is_complex:
    z = X.to(t.complex64); r = [t.cfloat is t.complex64, z * 1j, z.is_complex(), t.is_complex(X)]
torch.float8_e4m3fn torch.float8_e5m2:
    r = [(X * 90).to(d).float() for d in (t.float8_e4m3fn, t.float8_e5m2)] + [X.to(t.float8_e5m2).dtype]
op:float op:double op:half op:bfloat16 op:long op:byte:
    r = [I.float(), X.double(), X.half(), X.bfloat16(), X.long(), X.abs().byte()]
Tensor.int Tensor.bool op:type_as: r = [X.int(), X.bool(), X.type_as(I)]
op:to: r = [X.to(t.float64), X.to("cpu") is X, X.to(I), X.to(dtype=t.int32, copy=True), X.to("cpu", t.float16), X.to(X) is X]
op:cpu op:numpy op:tolist op:item: r = [X.cpu() is X, X.numpy(), I.tolist(), X[0, 1].item(), I[0, 0].item()]
op:from_numpy op:as_tensor op:tensor op:Tensor op:_as_tensor_fullprec:
    a = np.arange(4.0); b = t.from_numpy(a); c = t.as_tensor(a); a[0] = 7
    r = [b, c, t.tensor(a), t.tensor([[1, 2], [3, 4]]), t.tensor(1.5), t.tensor(True), t.Tensor([1, 2]), t.Tensor(2, 3).shape,
         t.as_tensor([1, 2])]
    r += [t.tensor([1, 2.5], dtype=t.float64), t._as_tensor_fullprec(2.5)]
op:FloatTensor op:LongTensor op:DoubleTensor op:IntTensor op:ByteTensor:
    r = [t.FloatTensor([1, 2]), t.LongTensor([3]), t.DoubleTensor([1.5]),
    t.IntTensor([2]), t.ByteTensor([255]), t.FloatTensor(2, 3).shape, isinstance(X, t.FloatTensor), isinstance(X, t.LongTensor)]
op:ByteStorage op:from_file:
    s = t.ByteStorage([1, 2, 3]); path = os.path.join(FOLDER, "numbers.bin"); np.arange(5, dtype=np.float32).tofile(path)
    r = [list(s), s.size(), t.from_file(path, size=5, dtype=t.float32)]
op:zeros op:ones op:full op:empty op:empty_like op:eye op:arange op:linspace:
    r = [t.zeros(2, 3), t.ones((2,), dtype=t.int64), t.full((2, 2), 7),
    t.empty(2, 3).shape, t.empty_like(I).dtype, t.eye(2, 3), t.arange(5), t.arange(1, 2, 0.3), t.linspace(0, 1, 5), t.full([2],
    1.5)]
op:zero op:fill op:copy: a = X.clone(); b = X.clone().fill_(2); c = a.copy_(t.arange(4)); r = [a, b, c is a, a.clone().zero_()]
op:new_zeros op:new_ones op:new_full op:new_empty op:new_tensor op:new:
    r = [I.new_zeros(2), X.new_ones(2, 3), X.new_full((2,), 3),
    I.new_empty((2, 1)).shape, X.new_tensor([1, 2]), X.new([1, 2]), I.new(2, 3).shape, X.new_zeros(2, dtype=t.int32)]
op:rand op:rand_like:
    v = t.rand(60, 50); w = t.rand_like(v)
    r = [v.dtype, v.shape, near(v.mean(), 0.5), near(w.mean(), 0.5), bool((v < 1).all() & (v >= 0).all())]
op:randn op:randn_like: v = t.randn(60, 50); w = t.randn_like(v); r = [v.dtype, w.shape, near(v.mean(), 0), near(w.std(), 1)]
op:randint: v = t.randint(3, 7, (40, 50)); r = [v.dtype, v.unique(), t.randint(4, (2,)).shape, near(v.float().mean(), 4.5)]
op:randperm: v = t.randperm(50); r = [v.dtype, v.sort().values, t.randperm(4, dtype=t.int32).dtype]
op:normal:
    v = t.normal(2.0, 3.0, (60, 50))
    r = [near(v.mean(), 2, 0.3), near(v.std(), 3, 0.2), t.normal(X, 0.0), t.zeros(60, 50).normal_(1, 0)[0, 0]]
op:uniform: v = t.empty(60, 50).uniform_(-1, 3); r = [near(v.mean(), 1), bool((v >= -1).all() & (v <= 3).all())]
op:bernoulli:
    v = t.bernoulli(t.full((60, 50), 0.25))
    r = [v.unique(), near(v.mean(), 0.25), t.bernoulli(t.tensor([0.0, 1.0])), t.zeros(4).bernoulli_(1.0)]
op:multinomial:
    v = t.multinomial(t.tensor([0.0, 1.0, 3.0]), 4000, replacement=True)
    r = [v.dtype, v.unique(), near(v.float().mean(), 1.75),
    t.multinomial(t.tensor([0.0, 1.0, 3.0]), 2).sort().values]
op:random: v = t.empty(400, dtype=t.int64).random_(3, 6); r = [v.unique(), t.empty(3).random_(1)]
op:_sample_dirichlet: v = t._sample_dirichlet(t.full((50, 3), 2.0)); r = [v.shape, v.sum(1), near(v.mean(), 1 / 3, 0.01)]
op:manual_seed torch.random.manual_seed op:Generator op:get_rng_state op:set_rng_state:
    g = t.Generator(); g.manual_seed(3); a = t.rand(3, generator=g)
    g.manual_seed(3); b = t.rand(3, generator=g); t.manual_seed(5); c = t.rand(3); t.random.manual_seed(5); d = t.rand(3)
    state = t.get_rng_state(); e = t.rand(3); t.set_rng_state(state)
    r = [t.equal(a, b), t.equal(c, d), t.equal(e, t.rand(3)), state.dtype, g.initial_seed()]
op:requires_grad op:retain_grad op:register_hook Tensor.grad_fn:
    x = X.clone().requires_grad_(); y = x * 2; y.retain_grad(); y.register_hook(lambda g: g * 3)
    y.sum().backward(); r = [x.grad, y.grad, x.grad_fn, y.grad_fn is not None, x.requires_grad]
op:register_post_accumulate_grad_hook:
    x = leaf(3); seen = []; x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    (x * 2).sum().backward(); r = seen
op:no_grad op:enable_grad op:set_grad_enabled op:is_grad_enabled op:inference_mode: x = leaf(3); r = [t.is_grad_enabled()]
    with t.no_grad():
        r += [(x * 2).requires_grad, t.is_grad_enabled()]
        with t.enable_grad(): r += [(x * 2).requires_grad]
    with t.set_grad_enabled(False): r += [(x * 2).requires_grad]
    with t.inference_mode(): r += [(x * 2).is_inference(), (x * 2).requires_grad]
op:expand op:expand_as op:repeat op:contiguous op:channels_last op:contiguous_format op:preserve_format op:stride:
    a = X[:, None].expand(3, 2, 4)
    r = [a, X[:1].expand_as(X), X.repeat(2, 1), a.stride(), a.is_contiguous(), X[1:].storage_offset(),
         X.t().contiguous().stride(),
         X.t().clone(memory_format=t.preserve_format).stride(), X.t().clone(memory_format=t.contiguous_format).stride(),
         IMAGE4.contiguous(memory_format=t.channels_last).stride()]
Tensor.T Tensor.mT Tensor.H op:is_contiguous op:storage_offset: r = [X.T.is_contiguous(), X[1:].storage_offset(), X.T, filled(2, 3, 4).mT, X.to(t.complex64).H]
op:element_size op:data_ptr op:is_floating_point op:is_tensor op:Size:
    a = X.clone(); r = [a.element_size(), I.element_size(), a[0].data_ptr() == a.data_ptr(),
    a[1].data_ptr() - a.data_ptr(), a.is_floating_point(), t.is_floating_point(I), t.is_tensor(a), t.is_tensor([1]), t.Size([2,
    3]).numel(), t.Size((2, 3)) + (1,)]
Tensor.is_cuda Tensor.is_sparse Tensor.is_quantized: r = [X.is_cuda, X.is_sparse, X.is_quantized]
op:strided op:jagged: r = [X.layout == t.strided, str(t.jagged)]
op:resize: a = t.arange(6); a.resize_(2, 2); r = [a, a.resize_(3)]
op:scalar_tensor: r = [t.scalar_tensor(2), t.scalar_tensor(2.5, dtype=t.float64)]
op:pin_memory op:cuda op:record_stream: r = [X.pin_memory is not None]
    for f in (lambda: X.cuda(), lambda: X.record_stream(t.Stream("cpu"))):
        try: f()
        except (RuntimeError, AssertionError): r += ["refused"]
op:einsum:
    r = [t.einsum("ij,kj->ik", X, Y), t.einsum("...i->...", X), t.einsum("bij,bjk->bik", filled(2, 3, 4), filled(2, 4, 2)),
         t.einsum(X, [0, 1], [1])]
op:gumbel_softmax: v = F.gumbel_softmax(X, tau=0.5, hard=True); r = [v.sum(1), v.unique(), F.gumbel_softmax(X, dim=0).sum(0)]
op:multi_head_attention_forward: m = fill(nn.MultiheadAttention(4, 2)); q = filled(5, 1, 4)
    r = F.multi_head_attention_forward(q, q, q, 4, 2, m.in_proj_weight, m.in_proj_bias, None, None, False, 0.0,
         m.out_proj.weight, m.out_proj.bias)
op:svd torch.linalg.qr torch.linalg.eigh torch.linalg.cholesky_ex op:cholesky_inverse:
    s = X @ X.T + t.eye(3); q, u = t.linalg.qr(X); l, v = t.linalg.eigh(s)
    a, b, c = t.svd(X); f = t.linalg.cholesky_ex(s)
    r = [q @ u, l, v @ l.diag() @ v.T, b, a @ b.diag() @ c.T, f.L, f.info, t.cholesky_inverse(f.L) @ s]
op:histogram: h = t.histogram(X, bins=4, range=(-1.0, 1.0)); r = [h.hist, h.bin_edges]
op:finfo op:pi op:inf: f = t.finfo(t.float32); r = [f.max, f.min, f.eps, f.tiny, f.bits, t.finfo(t.bfloat16).eps, t.pi, t.inf]
op:_assert: t._assert(True, "fine"); r = []
    try: t._assert(False, "this one")
    except AssertionError as error: r += [str(error)]
op:__version__: r = [t.__version__ is not None]
op:set_printoptions:
    t.set_printoptions(precision=2, sci_mode=False); a = str(X); t.set_printoptions(profile="default"); r = [a, str(X)]
op:get_default_dtype op:set_default_tensor_type:
    a = t.get_default_dtype(); t.set_default_tensor_type(t.DoubleTensor); b = t.get_default_dtype(); c = t.ones(2)
    t.set_default_tensor_type("torch.FloatTensor"); r = [a, b, c, t.get_default_dtype()]
op:set_default_device:
    t.set_default_device("meta"); a = t.ones(2).device.type; t.set_default_device(None); r = [a, t.ones(2).device.type]
op:set_float32_matmul_precision:
    t.set_float32_matmul_precision("high"); a = t.get_float32_matmul_precision(); t.set_float32_matmul_precision("highest")
    r = [a, X @ X.T]
op:are_deterministic_algorithms_enabled: r = [t.are_deterministic_algorithms_enabled()]; t.use_deterministic_algorithms(True)
    r += [t.are_deterministic_algorithms_enabled()]; t.use_deterministic_algorithms(False)
torch.is_autocast_enabled torch.autocast torch.amp.autocast torch.cuda.amp.autocast: r = [t.is_autocast_enabled("cpu")]
    with t.autocast("cpu", dtype=t.bfloat16): r += [t.is_autocast_enabled("cpu"), X @ X.T, (X @ X.T).dtype, X.sum().dtype]
    with t.amp.autocast("cpu", enabled=False): r += [(X @ X.T).dtype]
    with t.cuda.amp.autocast(enabled=False): r += [(X @ X.T).dtype]
op:_foreach_add_ op:_foreach_mul_ op:_foreach_lerp_:
    a = [X.clone(), Y.clone()]; b = [Y, X]; t._foreach_add_(a, b, alpha=2); t._foreach_mul_(a, 0.5)
    t._foreach_lerp_(a, b, 0.25); r = a
op:_scaled_mm: a, b = (X * 3).to(t.float8_e4m3fn), Y.T.to(t.float8_e5m2); one = t.tensor(1.0); s = t.tensor([[0.5], [2.0], [1.0]])
    r = [t._scaled_mm(a, b, t.tensor(2.0), one).float(), t._scaled_mm(a, b, one, one, out_dtype=t.float32, bias=t.arange(3.0)),
         t._scaled_mm(a, b, s, s.T.contiguous(), out_dtype=t.bfloat16), t._scaled_mm(a, b, one, one, scale_result=s[0],
         out_dtype=t.float8_e5m2).float()]
op:_int_mm op:fake_quantize_per_tensor_affine op:fake_quantize_per_channel_affine:
    a, b = (X * 50).to(t.int8), (Y.T * 50).to(t.int8); x = leaf(3, 4)
    q = t.fake_quantize_per_tensor_affine(x, 0.05, 3, 0, 15)
    c = t.fake_quantize_per_channel_affine(x, t.tensor([0.1, 0.02, 0.3]), t.tensor([0, 1, 5], dtype=t.int32), 0, -8, 7)
    r = [t._int_mm(a, b), q, t.autograd.grad(q.sum(), x), c, t.autograd.grad(c.sum(), x), x.dequantize()]
op:load op:save:
    path = os.path.join(FOLDER, "one.pt"); t.save({"a": X, "b": [I, 3]}, path); r = t.load(path)
    t.save(fill(nn.Linear(2, 1)).state_dict(), path)
    m = nn.Linear(2, 1); m.load_state_dict(t.load(path, weights_only=True)); r = [r["a"], r["b"], m.weight]
"""
