"""timm: its layers one by one, whole models in training, its optimizers, schedulers, losses and averaging of weights."""

import importlib.util
import json

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("timm") is None or importlib.util.find_spec("torchvision") is None,
    reason="timm or torchvision is not installed",
)

LAYERS = {
    "mlp": ("Mlp(16, 24)", (2, 5, 16)),
    "glu": ("GluMlp(16, 24)", (2, 5, 16)),
    "swiglu": ("SwiGLU(16, 24)", (2, 5, 16)),
    "conv_mlp": ("ConvMlp(16, 24)", (2, 16, 4, 4)),
    "global_response": ("GlobalResponseNormMlp(16, 24)", (2, 5, 5, 16)),
    "attention": ("Attention(16, num_heads=4, qk_norm=True, norm_layer=torch.nn.LayerNorm)", (2, 5, 16)),
    "attention_pool": ("AttentionPoolLatent(16, num_heads=4)", (2, 5, 16)),
    "attention_2d": ("Attention2d(16, num_heads=4)", (2, 16, 4, 4)),
    "patches": ("PatchEmbed(16, 4, 3, 16)", (2, 3, 16, 16)),
    "norm": ("LayerNorm2d(16)", (2, 16, 4, 4)),
    "rms": ("RmsNorm(16)", (2, 5, 16)),
    "group": ("GroupNormAct(16, 4)", (2, 16, 4, 4)),
    "batch": ("BatchNormAct2d(16)", (2, 16, 4, 4)),
    "conv_norm": ("ConvNormAct(16, 8, 3, stride=2)", (2, 16, 8, 8)),
    "standardised": ("ScaledStdConv2d(16, 8, 3, padding=1)", (2, 16, 6, 6)),
    "same": ("Conv2dSame(16, 8, 3, stride=2)", (2, 16, 7, 7)),
    "mixed": ("MixedConv2d(16, 16, [3, 5], depthwise=True)", (2, 16, 7, 7)),
    "conditional": ("CondConv2d(16, 8, 3, padding=1, num_experts=2)", None),
    "blur": ("BlurPool2d(16)", (2, 16, 8, 8)),
    "squeeze": ("SEModule(16, rd_ratio=0.5)", (2, 16, 4, 4)),
    "effective": ("EffectiveSEModule(16)", (2, 16, 4, 4)),
    "eca": ("EcaModule(16)", (2, 16, 4, 4)),
    "rope": ("AttentionRope(16, num_heads=4)", (2, 5, 16)),
    "multi_query": ("MultiQueryAttentionV2(16, num_heads=4, key_dim=4, value_dim=4)", (2, 16, 4, 4)),
    "context": ("GlobalContext(16, rd_ratio=0.5)", (2, 16, 4, 4)),
    "selective": ("SelectiveKernel(16, rd_ratio=0.5)", (2, 16, 4, 4)),
    "split": ("SplitAttn(16)", (2, 16, 4, 4)),
    "non_local": ("NonLocalAttn(16)", (2, 16, 4, 4)),
    "pool": ("SelectAdaptivePool2d(pool_type='catavgmax', flatten=True)", (2, 16, 5, 5)),
    "classifier": ("NormMlpClassifierHead(16, 7, hidden_size=8)", (2, 16, 5, 5)),
    "scale": ("LayerScale(16)", (2, 5, 16)),
    "bias": ("RelPosBias((4, 4), 2)", None),
    "hard_swish": ("create_act_layer('hard_swish')", (2, 16)),
    "gelu_tanh": ("create_act_layer('gelu_tanh')", (2, 16)),
    "quick_gelu": ("create_act_layer('quick_gelu')", (2, 16)),
    "rotary": ("RotaryEmbeddingCat(16, in_pixels=False, feat_shape=(4, 4))", None),
    "drop_block": ("DropBlock2d(0.0)", (2, 16, 4, 4)),
    "evonorm": ("EvoNorm2dS0(16, groups=4)", (2, 16, 4, 4)),
    "filter": ("FilterResponseNormTlu2d(16)", (2, 16, 4, 4)),
    "cbam": ("cbam.CbamModule(16, rd_ratio=0.5)", (2, 16, 6, 6)),
    "gather_excite": ("GatherExcite(16, extent=2, use_mlp=False)", (2, 16, 8, 8)),
    "halo": ("halo_attn.HaloAttn(16, num_heads=4, block_size=4, halo_size=1)", (2, 16, 8, 8)),
    "bottleneck": ("bottleneck_attn.BottleneckAttn(16, feat_size=(4, 4), num_heads=4)", (2, 16, 4, 4)),
    "lambda": ("lambda_layer.LambdaLayer(16, feat_size=(4, 4), num_heads=4, dim_head=4)", (2, 16, 4, 4)),
    "response": ("grn.GlobalResponseNorm(16)", (2, 5, 5, 16)),
    "simple_norm": ("SimpleNorm2d(16)", (2, 16, 4, 4)),
    "circular": ("CecaModule(16)", (2, 16, 4, 4)),
    "space_to_depth": ("SpaceToDepth(4)", (2, 16, 8, 8)),
    "same_pool": ("AvgPool2dSame(3, 2)", (2, 16, 7, 7)),
    "clip_pool": ("AttentionPool2d(16, feat_size=4, num_heads=4)", (2, 16, 4, 4)),
    "rot_pool": ("RotAttentionPool2d(16, num_heads=4, ref_feat_size=4)", (2, 16, 4, 4)),
}

LAYER_PROGRAM = """
import timm.layers as L
from timm.layers import bottleneck_attn, cbam, grn, halo_attn, lambda_layer
results = {}
for name, (made, shape) in json.loads(sys.argv[2]).items():
    torch.manual_seed(0)
    layer = fill(eval("L." + made)).double().train()
    if name == "bias":
        out, x = layer.get_bias(), None
    elif name == "rotary":
        out, x = layer.get_embed(), None
    elif name == "conditional":
        x = filled((2, 16, 6, 6), 1, 1.0).double().requires_grad_()
        out = layer(x, filled((2, 2), 2, 1.0).double().sigmoid())
    else:
        x = filled(shape, 1, 1.0).double().requires_grad_()
        out = layer(x)
    if out.requires_grad:
        (out * filled(out.shape, 3, 1.0)).sum().backward()
    grads = [numbers(p.grad) for _, p in sorted(layer.named_parameters()) if p.grad is not None]
    results[name] = [list(out.shape), numbers(out), grads, numbers(x.grad) if x is not None else [], list(layer.state_dict()),
                     [numbers(b.float()) for b in layer.buffers()]]
print(json.dumps(results))
"""


@pytest.mark.parametrize("name", LAYERS)
def test_layer(both, name):
    assert both(LAYER_PROGRAM, json.dumps(LAYERS), part=name, tolerance=1e-6)[1]


MODELS = {
    "vit": "'vit_tiny_patch16_224', img_size=32, patch_size=8, depth=2, embed_dim=32, num_heads=2",
    "resnet": "'resnet10t'",
    "convnext": "'convnext_atto', depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)",
    "mobilenet": "'mobilenetv3_small_050', drop_rate=0.0",
    "efficientnet": "'efficientnet_lite0', drop_rate=0.0, drop_path_rate=0.0",
    "mixer": "'resmlp_12_224', img_size=32",
    "swin": "'swin_tiny_patch4_window7_224', img_size=32, window_size=4, depths=(1, 1), num_heads=(2, 2), embed_dim=16, "
    "drop_path_rate=0.0",
    "regnet": "'regnetx_002'",
    "efficientvit_msra": "'efficientvit_m0', img_size=32",
    "efficientvim": "'efficientvim_m1'",
}

MODEL_PROGRAM = """
import timm
import timm.optim
results = {}
for name, made in json.loads(sys.argv[2]).items():
    torch.manual_seed(0)
    model = eval(f"timm.create_model({made}, num_classes=7)").double()
    fill(model, 0.1)
    x = filled((4, 3, 32, 32), 1, 1.0).double()
    optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 5, 0, 3]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        out, features = model.eval()(x), model.forward_features(x)
    results[name] = dict(losses=losses, out=numbers(out), features=[list(f.shape) for f in features] if isinstance(features, list) else list(features.shape), keys=list(model.state_dict()))
print(json.dumps(results))
"""


@pytest.mark.parametrize("name", MODELS)
def test_model_trains_like_torch(both, name):
    assert both(MODEL_PROGRAM, json.dumps(MODELS), part=name, tolerance=1e-6)["losses"]


OPTIMIZERS = """sgd sgdw momentum adam adamw nadamw adamp adabelief adafactor adafactorbv adan adopt cadamw lamb lars lion
mars madgrad laprop novograd nadam radam rmsprop rmsproptf adagrad adadelta""".split()

OTHERS = """
import timm.loss, timm.optim, timm.utils
from timm.data import Mixup
from timm.scheduler import create_scheduler_v2
results = {}
for name in json.loads(sys.argv[2]):
    model = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)))
    optimizer = timm.optim.create_optimizer_v2(model, name, lr=0.01, weight_decay=0.01)
    scheduler, _ = create_scheduler_v2(optimizer, "cosine", num_epochs=4, warmup_epochs=1, warmup_lr=1e-3)
    losses, rates = [], []
    for step in range(4):
        scheduler.step(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(filled((5, 6), 1, 1.0)), torch.tensor([0, 1, 2, 0, 1]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
    results[name] = [losses, rates, numbers(model[0].weight), sorted(k for k in optimizer.param_groups[0] if k != "params")]
out, soft = filled((4, 5), 1, 2.0), filled((4, 5), 2, 2.0).softmax(-1)
label = torch.tensor([0, 3, 1, 4])
results["losses"] = [float(timm.loss.LabelSmoothingCrossEntropy(0.1)(out, label)), float(timm.loss.SoftTargetCrossEntropy()(out, soft)),
                     float(timm.loss.BinaryCrossEntropy(0.1)(out, label)), float(timm.loss.AsymmetricLossMultiLabel()(out, (soft > 0.2).float())),
                     float(timm.loss.JsdCrossEntropy(num_splits=2)(out, label[:2]))]
model = fill(torch.nn.Linear(3, 2))
average = timm.utils.ModelEmaV3(model, decay=0.9)
with torch.no_grad():
    model.weight.add_(1.0)
average.update(model)
results["ema"] = numbers(average.module.weight)
results["top"] = [float(v) for v in timm.utils.accuracy(out, label, topk=(1, 3))]
results["clip"] = [timm.utils.dispatch_clip_grad(model.parameters(), 1.0, mode="norm")]
print(json.dumps(results))
"""


@pytest.mark.parametrize("name", OPTIMIZERS + ["losses", "ema", "top", "clip"])
def test_training_tools(both, name):
    assert both(OTHERS, json.dumps(OPTIMIZERS), part=name)
