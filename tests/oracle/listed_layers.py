"""Programs for the listed names of modules, their initialisers and tools (see listed.py for the form)."""

TEXT = """
torch.nn.Linear torch.nn.Identity torch.nn.Sequential torch.nn.ReLU:
    layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Identity()), X)
torch.nn.Embedding: layer(nn.Embedding(7, 3, padding_idx=2), I); r += [nn.Embedding.from_pretrained(filled(5, 2))(I % 5)]
torch.nn.Dropout op:dropout: m = nn.Dropout(0.25); y = m(t.ones(4000)); z = F.dropout(t.ones(4000), 0.25, training=False)
    r = [sorted(set(y.tolist())), 0.7 < float((y != 0).float().mean()) < 0.8, z, m.eval()(X)]
torch.nn.Dropout2d: y = nn.Dropout2d(0.5)(t.ones(300, 2, 2, 2)); r = [(y.amax((2, 3)) == y.amin((2, 3))).all(), y.unique()]
torch.nn.Conv1d: layer(nn.Conv1d(4, 2, 3, padding=1, padding_mode="reflect"), filled(2, 4, 6))
torch.nn.Conv2d: layer(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), IMAGE4)
torch.nn.Conv3d: layer(nn.Conv3d(2, 3, 2, dilation=(1, 2, 1)), filled(1, 2, 3, 4, 3))
torch.nn.ConvTranspose1d: layer(nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1), filled(2, 3, 4))
torch.nn.ConvTranspose2d: layer(nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1), IMAGE4)
torch.nn.LazyConv2d: layer(initialised(nn.LazyConv2d(3, 3), IMAGE4), IMAGE4)
torch.nn.LazyLinear: layer(initialised(nn.LazyLinear(3), X), X)
torch.nn.LazyBatchNorm2d: layer(initialised(nn.LazyBatchNorm2d(), IMAGE4), IMAGE4)
torch.nn.modules.linear.NonDynamicallyQuantizableLinear: layer(nn.modules.linear.NonDynamicallyQuantizableLinear(4, 2), X)
torch.nn.BatchNorm1d: m = nn.BatchNorm1d(4, momentum=None); layer(m, X); r += [m.running_mean, m.num_batches_tracked]
torch.nn.BatchNorm2d: m = nn.BatchNorm2d(4); layer(m, IMAGE4); r += [m.running_var, m.eval()(IMAGE4)]
torch.nn.BatchNorm3d: layer(nn.BatchNorm3d(2, affine=False), filled(2, 2, 2, 3, 2))
torch.nn.SyncBatchNorm: m = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(4)))
    r = [type(m[0]).__name__, isinstance(m[0], nn.modules.batchnorm._BatchNorm), list(m.state_dict())]
torch.nn.modules.batchnorm._BatchNorm: r = [issubclass(c, nn.modules.batchnorm._BatchNorm)
    for c in (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.InstanceNorm2d, nn.GroupNorm)]
torch.nn.modules.instancenorm._InstanceNorm: r = [issubclass(c, nn.modules.instancenorm._InstanceNorm)
    for c in (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.BatchNorm2d)]
torch.nn.InstanceNorm2d: layer(nn.InstanceNorm2d(4, affine=True), IMAGE4)
torch.nn.GroupNorm: layer(nn.GroupNorm(2, 4), IMAGE4)
torch.nn.LayerNorm: layer(nn.LayerNorm((4, 3), bias=False), filled(2, 4, 3))
torch.nn.RMSNorm: layer(nn.RMSNorm(4, eps=1e-5), X)
torch.nn.LocalResponseNorm: layer(nn.LocalResponseNorm(2), IMAGE4)
torch.nn.MaxPool1d: layer(nn.MaxPool1d(2, return_indices=True), filled(2, 3, 6))
torch.nn.MaxPool2d: layer(nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE4)
torch.nn.MaxPool3d: layer(nn.MaxPool3d(2), filled(1, 2, 4, 4, 4))
torch.nn.AvgPool1d: layer(nn.AvgPool1d(2), filled(2, 3, 6))
torch.nn.AvgPool2d: layer(nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE4)
torch.nn.AvgPool3d: layer(nn.AvgPool3d(2), filled(1, 2, 4, 4, 4))
torch.nn.AdaptiveAvgPool1d: layer(nn.AdaptiveAvgPool1d(4), filled(2, 3, 6))
torch.nn.AdaptiveAvgPool2d: layer(nn.AdaptiveAvgPool2d((3, None)), IMAGE4)
torch.nn.AdaptiveAvgPool3d: layer(nn.AdaptiveAvgPool3d(2), filled(1, 2, 4, 3, 5))
torch.nn.AdaptiveMaxPool1d: layer(nn.AdaptiveMaxPool1d(4), filled(2, 3, 6))
torch.nn.AdaptiveMaxPool2d: layer(nn.AdaptiveMaxPool2d(3), IMAGE4)
torch.nn.Upsample: layer(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), IMAGE4)
torch.nn.ZeroPad2d: layer(nn.ZeroPad2d((1, 0, 2, -1)), IMAGE4)
torch.nn.ConstantPad2d: layer(nn.ConstantPad2d(1, 0.5), IMAGE4)
torch.nn.ReflectionPad2d: layer(nn.ReflectionPad2d(2), IMAGE4)
torch.nn.ReplicationPad1d: layer(nn.ReplicationPad1d(2), filled(2, 3, 6))
torch.nn.ReplicationPad2d: layer(nn.ReplicationPad2d((1, 2, 0, 3)), IMAGE4)
torch.nn.Unfold: layer(nn.Unfold(2, stride=2), IMAGE4)
torch.nn.PixelShuffle: layer(nn.PixelShuffle(2), IMAGE4)
torch.nn.Flatten torch.nn.Unflatten: layer(nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 50))), IMAGE4)
torch.nn.GELU: layer(nn.Sequential(nn.GELU(), nn.GELU(approximate="tanh")), X)
torch.nn.Sigmoid torch.nn.Tanh: layer(nn.Sequential(nn.Sigmoid(), nn.Tanh()), X)
torch.nn.Softmax torch.nn.LogSoftmax: layer(nn.Sequential(nn.Softmax(0), nn.LogSoftmax(dim=-1)), X)
torch.nn.SiLU torch.nn.Hardswish torch.nn.Hardsigmoid: layer(nn.Sequential(nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid()), X * 3)
torch.nn.ReLU6 torch.nn.LeakyReLU torch.nn.ELU: layer(nn.Sequential(nn.ReLU6(), nn.LeakyReLU(0.2), nn.ELU()), X * 5)
torch.nn.Softplus torch.nn.LogSigmoid torch.nn.GLU: layer(nn.Sequential(nn.Softplus(), nn.LogSigmoid(), nn.GLU()), X)
torch.nn.PReLU: layer(nn.PReLU(4), X)
torch.nn.CrossEntropyLoss: layer(nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=1), X, LABELS)
torch.nn.NLLLoss: layer(nn.NLLLoss(weight=t.tensor([1.0, 2, 0.5, 1])), X, LABELS)
torch.nn.MSELoss torch.nn.L1Loss: layer(nn.MSELoss(), X, Y); a = r; layer(nn.L1Loss(reduction="none"), X, Y); r += a
torch.nn.SmoothL1Loss: layer(nn.SmoothL1Loss(beta=0.4), X, Y)
torch.nn.BCELoss torch.nn.BCEWithLogitsLoss: layer(nn.BCELoss(), X.sigmoid(), Y.sigmoid()); a = r
    layer(nn.BCEWithLogitsLoss(pos_weight=t.tensor(2.0)), X, Y.sigmoid()); r += a
torch.nn.KLDivLoss: layer(nn.KLDivLoss(reduction="batchmean", log_target=True), X.log_softmax(1), Y.log_softmax(1))
torch.nn.RNN torch.nn.RNNBase: m = nn.RNN(4, 3, 2, nonlinearity="relu"); layer(m, SEQUENCE); r += [isinstance(m, nn.RNNBase)]
torch.nn.LSTM: layer(nn.LSTM(4, 3, bidirectional=True, batch_first=True), SEQUENCE)
torch.nn.GRU: layer(nn.GRU(4, 3, num_layers=2), SEQUENCE)
torch.nn.LSTMCell torch.nn.GRUCell: layer(nn.LSTMCell(4, 3), X); a = r; layer(nn.GRUCell(4, 3), X); r += a
torch.nn.MultiheadAttention: layer(nn.MultiheadAttention(4, 2, batch_first=True), SEQUENCE, SEQUENCE, SEQUENCE)
torch.nn.Transformer: layer(nn.Transformer(4, 2, 1, 1, 8, dropout=0.0), SEQUENCE, SEQUENCE)
torch.nn.TransformerDecoder: one = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    layer(nn.TransformerDecoder(one, 2, nn.LayerNorm(4)), SEQUENCE, SEQUENCE)
torch.nn.modules.transformer._get_activation_fn: r = [nn.modules.transformer._get_activation_fn(n)(X) for n in ("relu", "gelu")]
torch.nn.ModuleList Module.children:
    m = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()]); m.extend([nn.Linear(4, 2)]); m.insert(1, nn.Tanh())
    r = [len(m), type(m[-1]).__name__, list(fill(m).state_dict()), [type(c).__name__ for c in m.children()], m[2](m[0](X))]
torch.nn.ModuleDict: m = nn.ModuleDict({"a": nn.Linear(4, 4)}); m.update({"b": nn.ReLU()})
    r = [list(m.keys()), "a" in m, list(m.state_dict()), type(m.pop("b")).__name__, len(m), fill(m)["a"](X)]
torch.nn.ParameterList: m = nn.ParameterList([nn.Parameter(filled(2))]); m.append(nn.Parameter(filled(3)))
    r = [len(m), list(m.state_dict()), [p.shape for p in m], m[1]]
torch.nn.Parameter Tensor.requires_grad Tensor.data: p = nn.Parameter(filled(2, 3)); p.data = p.data * 2; p.data[0] = 1
    r = [p.requires_grad, p.is_leaf, p.data, isinstance(p, t.Tensor), nn.Parameter(X, requires_grad=False).requires_grad]
torch.nn.Buffer: m = nn.Module(); m.a = nn.Buffer(filled(3)); m.b = nn.Buffer(filled(2), persistent=False)
    r = [list(m.state_dict()), [n for n, _ in m.named_buffers()], m.b]
torch.nn.DataParallel torch.nn.parallel.DataParallel torch.nn.parallel.data_parallel: m = fill(nn.Linear(4, 2))
    r = [nn.DataParallel(m)(X), list(nn.parallel.DataParallel(m).state_dict()),
         list(inspect.signature(nn.parallel.data_parallel).parameters)]
torch.nn.parallel.DistributedDataParallel torch.nn.parallel.distributed.DistributedDataParallel:
    r = [nn.parallel.distributed.DistributedDataParallel is nn.parallel.DistributedDataParallel,
         list(inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters)[:4]]
torch.nn.__dict__: r = [nn.__dict__["Linear"] is nn.Linear, "GELU" in nn.__dict__]
torch.nn.modules.utils._pair torch.nn.modules.utils._ntuple:
    r = [nn.modules.utils._pair(3), nn.modules.utils._pair((1, 2)), nn.modules.utils._ntuple(3, "three")(2)]

torch.nn.Module Module.forward Module.register_parameter: m = Net(); m.register_parameter("none", None)
    layer(m, X); r += [repr(m), m.none, m.forward(X), isinstance(m, nn.Module)]
Module.add_module Module._get_name: m = nn.Module(); m.add_module("a", nn.Linear(2, 2))
    r = [list(m._modules), m._get_name(), m.a._get_name()]
Module.parameters Module.named_parameters: m = Net()
    r = [[tuple(p.shape) for p in m.parameters()], [n for n, _ in m.named_parameters()],
         [n for n, _ in m.named_parameters(prefix="x", recurse=False)]]
Module.modules Module.named_modules Module.named_children: m = Net(); r = [[type(e).__name__ for e in m.modules()],
    [n for n, _ in m.named_modules()], [n for n, _ in m.named_children()]]
Module.buffers Module.named_buffers Module.register_buffer: m = Net(); m.register_buffer("late", filled(2), persistent=False)
    r = [[tuple(b.shape) for b in m.buffers()], [n for n, _ in m.named_buffers()], list(m.state_dict())]
Module.train Module.eval:
    m = Net(); r = [m.training, m.eval().training, [e.training for e in m.train().modules()], m.train(False).training]
Module.zero_grad op:backward Tensor.grad:
    m = fill(Net()); m(X).sum().backward(); a = [p.grad.clone() for p in m.parameters()]; m.zero_grad()
    r = [a, [p.grad for p in m.parameters()]]; m(X).sum().backward(); m.zero_grad(set_to_none=False)
    r += [p.grad for p in m.parameters()]
Module.apply: m = Net(); seen = []; m.apply(lambda e: seen.append(type(e).__name__)); r = seen
Module._apply: m = fill(Net()); m._apply(lambda e: e * 2); r = list(m.state_dict().values())
Module.to Module.type:
    m = Net(); r = [p.dtype for p in m.to(t.float64).parameters()] + [p.dtype for p in m.type(t.float16).parameters()]
    r += [p.dtype for p in m.to("cpu", t.bfloat16).parameters()]
Module.to_empty:
    m = Net().to("meta")
    r = [p.device.type for p in m.parameters()] + [p.device.type for p in m.to_empty(device="cpu").parameters()]
Module.state_dict Module.load_state_dict: m = fill(Net()); n = Net(); found = n.load_state_dict(m.state_dict())
    r = [str(found), n(X), list(m.state_dict(prefix="p.")), list(found.missing_keys)]
    bad = n.load_state_dict({"other": X}, strict=False); r += [sorted(bad.missing_keys), bad.unexpected_keys]
    try: n.load_state_dict({"first.weight": X})
    except RuntimeError as error: r += [str(error)]
Module._load_from_state_dict Module._register_load_state_dict_pre_hook Module.register_load_state_dict_post_hook: seen = []
    class Watched(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            seen.append(("load", prefix, sorted(state_dict)))
            super()._load_from_state_dict(state_dict, prefix, *rest)
    m = nn.Sequential(Watched(2, 1))
    m[0]._register_load_state_dict_pre_hook(lambda s, prefix, *rest: seen.append(("before", prefix)))
    m.register_load_state_dict_post_hook(lambda module, keys: seen.append(("after", type(module).__name__, keys.missing_keys)))
    m.load_state_dict(nn.Sequential(nn.Linear(2, 1)).state_dict()); r = seen
Module.get_submodule Module.get_parameter:
    m = Net(); r = [type(m.get_submodule("inner.0")).__name__, tuple(m.get_parameter("first.bias").shape)]
    try: m.get_submodule("inner.7")
    except AttributeError as error: r += [str(error)]
Module.register_forward_hook Module.register_forward_pre_hook: m = fill(nn.Linear(4, 2)); seen = []
    handle = m.register_forward_hook(lambda m, args, out: out * 2); m.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    a = m(X); handle.remove(); r = [a, m(X)]
Module.register_full_backward_hook: m = fill(nn.Linear(4, 2)); seen = []; x = leaf(3, 4)
    m.register_full_backward_hook(lambda m, given, got: (given[0] * 2,)); m(x).sum().backward(); r = [x.grad, m.weight.grad]
Module.share_memory: m = fill(nn.Linear(4, 2)); r = [m.share_memory() is m, m.weight.is_shared(), m(X)]
Module.compile: m = fill(nn.Linear(4, 2))
    if t.__name__ != "torch": m.compile()           # (which changes no numbers)
    r = [m(X), list(m.state_dict())]

torch.nn.init.zeros_ torch.nn.init.ones_ torch.nn.init.constant_ torch.nn.init.eye_ torch.nn.init.dirac_: e = t.empty
    r = [nn.init.zeros_(e(2)), nn.init.ones_(e(2)), nn.init.constant_(e(2), 3.0), nn.init.eye_(e(2, 3)), nn.init.dirac_(e(4, 2,
         3), 2)]
torch.nn.init.normal_: v = nn.init.normal_(t.empty(200, 100), 2.0, 0.5); r = [near(v.mean(), 2.0), near(v.std(), 0.5), v.dtype]
torch.nn.init.uniform_:
    v = nn.init.uniform_(t.empty(200, 100), -1.0, 3.0); r = [near(v.mean(), 1.0), near(v.min(), -1.0), near(v.max(), 3.0)]
torch.nn.init.trunc_normal_:
    v = nn.init.trunc_normal_(t.empty(200, 100), std=2.0, a=-1.0, b=1.0); r = [near(v.min(), -1.0), near(v.max(), 1.0)]
torch.nn.init.kaiming_normal_ torch.nn.init.kaiming_normal:
    v = nn.init.kaiming_normal_(t.empty(400, 100), mode="fan_out", nonlinearity="relu")
    r = [near(v.std(), 0.0707, 0.002), near(nn.init.kaiming_normal(t.empty(400, 100), 0.5).std(), 0.1265, 0.002)]
torch.nn.init.kaiming_uniform_:
    v = nn.init.kaiming_uniform_(t.empty(400, 100), a=5 ** 0.5); r = [near(v.max(), 0.1, 0.001), near(v.min(), -0.1, 0.001)]
torch.nn.init.xavier_normal_: v = nn.init.xavier_normal_(t.empty(300, 100), gain=2.0); r = [near(v.std(), 0.1414, 0.003)]
torch.nn.init.xavier_uniform_: v = nn.init.xavier_uniform_(t.empty(300, 100)); r = [near(v.max(), 0.12247, 0.001)]
torch.nn.init.orthogonal_:
    v = nn.init.orthogonal_(t.empty(5, 3), gain=2.0); r = [v.T @ v, nn.init.orthogonal_(t.empty(2, 4)).shape]
torch.nn.init.calculate_gain:
    r = [nn.init.calculate_gain(n) for n in ("relu", "tanh", "linear", "selu")] + [nn.init.calculate_gain("leaky_relu", 0.3)]
torch.nn.init._calculate_fan_in_and_fan_out: r = nn.init._calculate_fan_in_and_fan_out(t.empty(6, 4, 3, 3))
torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_norm torch.nn.utils.clip_grad_value_:
    m = fill(Net()); m(X).sum().backward(); u = nn.utils
    a = u.clip_grad_norm_(m.parameters(), 0.5); b = [p.grad.clone() for p in m.parameters()]
    u.clip_grad_value_(m.parameters(), 0.05)
    r = [a, b, u.clip_grad_norm(m.parameters(), 1.0, norm_type=float("inf")), [p.grad for p in m.parameters()]]
torch.nn.utils.weight_norm torch.nn.utils.remove_weight_norm:
    m = nn.utils.weight_norm(fill(nn.Linear(4, 2))); a = [m(X), list(m.state_dict())]
    nn.utils.remove_weight_norm(m); r = [a, m(X), list(m.state_dict())]
torch.nn.utils.spectral_norm: m = nn.utils.spectral_norm(fill(nn.Linear(4, 2))); r = [sorted(m.state_dict()), m(X).shape]
    for k in range(30): m(X)
    r += [near(t.linalg.matrix_norm(m.weight, 2), 1.0, 1e-3)]
torch.nn.utils.parametrize.register_parametrization: p = nn.utils.parametrize; m = fill(nn.Linear(4, 2))
    class Doubled(nn.Module):
        def forward(self, w): return w * 2
    p.register_parametrization(m, "weight", Doubled()); a = [m(X), list(m.state_dict()), p.is_parametrized(m)]
    p.remove_parametrizations(m, "weight"); r = [a, m.weight, list(m.state_dict())]
torch.nn.utils.prune.l1_unstructured torch.nn.utils.prune.remove: m = fill(nn.Linear(4, 2))
    prune = importlib.import_module(t.__name__ + ".nn.utils.prune"); prune.l1_unstructured(m, "weight", amount=3)
    a = [m.weight, m.weight_mask, sorted(m.state_dict())]; prune.remove(m, "weight"); r = [a, m.weight, sorted(m.state_dict())]
torch.nn.utils.rnn.pack_padded_sequence torch.nn.utils.rnn.pad_packed_sequence: u = nn.utils.rnn
    p = u.pack_padded_sequence(filled(5, 3, 2), t.tensor([3, 5, 1]), enforce_sorted=False); m = fill(nn.GRU(2, 3))
    out, state = m(p)
    r = [p.data, p.batch_sizes, p.sorted_indices, *u.pad_packed_sequence(out, batch_first=True, padding_value=-1.0), state]
torch.nn.utils.rnn.pad_sequence: r = nn.utils.rnn.pad_sequence([filled(2, 3), filled(4, 3)], batch_first=True, padding_value=9.0)
torch.nn.attention.SDPBackend torch.nn.attention.sdpa_kernel: from_ = nn.attention; q = filled(1, 2, 5, 4)
    with from_.sdpa_kernel(from_.SDPBackend.MATH): r = F.scaled_dot_product_attention(q, q, q, is_causal=True)
torch.nn.attention.flex_attention.BlockMask:
    f = importlib.import_module(t.__name__ + ".nn.attention.flex_attention")
    mask = f.create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 200, 256, device="cpu", BLOCK_SIZE=128)
    r = [isinstance(mask, f.BlockMask), tuple(mask.shape), mask.BLOCK_SIZE, mask.to_dense()]
torch.nn.attention.flex_attention.flex_attention torch.nn.attention.flex_attention.create_block_mask:
    f = importlib.import_module(t.__name__ + ".nn.attention.flex_attention"); q = filled(1, 2, 8, 4)
    mask = f.create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8, device="cpu")
    r = f.flex_attention(q, q, q, lambda s, b, h, i, j: s * 0.5 + i - j, mask)
torch.nn.grad.conv1d_input torch.nn.grad.conv2d_input torch.nn.grad.conv3d_input: g = nn.grad; w = filled(4, 2, 3)
    r = [g.conv1d_input((2, 4, 7), w, filled(2, 4, 4), 2, 1, 1, 2), g.conv2d_input((2, 4, 5, 5), filled(3, 4, 2, 3), filled(2,
         3, 4, 3)),
         g.conv3d_input((1, 1, 3, 4, 4), filled(2, 1, 2, 2, 2), filled(1, 2, 2, 3, 3))]
torch.nn.grad.conv1d_weight torch.nn.grad.conv2d_weight torch.nn.grad.conv3d_weight: g = nn.grad
    r = [g.conv1d_weight(filled(2, 4, 7), (4, 2, 3), filled(2, 4, 4), 2, 1, 1, 2), g.conv2d_weight(IMAGE4, (3, 4, 2, 3),
         filled(2, 3, 4, 3)),
         g.conv3d_weight(filled(1, 1, 3, 4, 4), (2, 1, 2, 2, 2), filled(1, 2, 2, 3, 3), padding=0, dilation=1)]
"""
