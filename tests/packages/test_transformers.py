"""transformers: small models from their configurations (random weights replaced) train, generate, and go through files."""

import importlib.util
import json

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")

MODELS = {
    "bert": "BertForSequenceClassification(tr.BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, "
    "num_attention_heads=4, intermediate_size=48, max_position_embeddings=40, hidden_dropout_prob=0.0, "
    "attention_probs_dropout_prob=0.0, num_labels=3))",
    "gpt2": "GPT2LMHeadModel(tr.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=40, resid_pdrop=0.0, "
    "embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2))",
    "llama": "LlamaForCausalLM(tr.LlamaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, "
    "num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64))",
    "vit": "ViTForImageClassification(tr.ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, "
    "num_attention_heads=4, intermediate_size=48, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, "
    "num_labels=3))",
}

START = """
import transformers as tr
tr.logging.set_verbosity_error()
ids = (torch.arange(24) * 31 % 97).reshape(2, 12)
mask = torch.ones(2, 12, dtype=torch.long)
mask[1, 9:] = 0

def given(name):
    if name == "vit":
        return dict(pixel_values=filled((2, 3, 32, 32), 5, 1.0), labels=torch.tensor([0, 2]))
    return dict(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 2]) if name == "bert" else ids)
"""

TRAIN = (
    START
    + """
def train(name, model):
    keys = list(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        out = model(**given(name))
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(out.loss.item())
    return dict(losses=losses, logits=numbers(out.logits), keys=keys)

@torch.no_grad()
def generate(model):
    "Greedy, beams, and drawn: the latter differ in their numbers, not in their shape."
    start = dict(inputs=ids[:1, :5], pad_token_id=0)
    drawn = model.generate(**start, max_new_tokens=5, do_sample=True, top_k=20, top_p=0.9)
    return dict(greedy=model.generate(**start, max_new_tokens=8, do_sample=False).tolist(),
                beam=model.generate(**start, max_new_tokens=5, num_beams=3, do_sample=False).tolist(), drawn=drawn.shape[0])

results = {}
for name, made in json.loads(sys.argv[2]).items():
    model = fill(eval("tr." + made))
    results[name] = train(name, model)
    model.eval()
    if hasattr(model, "generate"):
        results[name].update(generate(model))
print(json.dumps(results))
"""
)


@pytest.mark.parametrize("name", MODELS)
def test_trains_and_generates_like_torch(both, name):
    result = both(TRAIN, json.dumps(MODELS), part=name)
    assert result["losses"][2] < result["losses"][0]


FILES = (
    START
    + """
model = fill(eval("tr." + sys.argv[2])).eval()
model.save_pretrained(FOLDER)
again = type(model).from_pretrained(FOLDER).eval()
halves = type(model).from_pretrained(FOLDER, dtype=torch.bfloat16).eval()
with torch.no_grad():
    first, second, near = (m(**given("bert")).logits.float() for m in (model, again, halves))
print(json.dumps(dict(same=bool((first == second).all()), files=sorted(os.listdir(FOLDER)), kind=str(halves.dtype),
                      near=bool((near - first).abs().max() < 0.1 * first.abs().max()))))
"""
)


def test_goes_through_files(both):
    result = both(FILES, MODELS["bert"])
    assert result["same"] and result["near"] and "model.safetensors" in result["files"]


SOUND_AND_VISION = {
    "fastspeech2_conformer": (
        "FastSpeech2ConformerModel(tr.FastSpeech2ConformerConfig(hidden_size=16, vocab_size=20, num_mel_bins=6, "
        "encoder_num_attention_heads=2, encoder_layers=1, encoder_linear_units=24, decoder_layers=1, "
        "decoder_num_attention_heads=2, decoder_linear_units=24, speech_decoder_postnet_layers=2, "
        "speech_decoder_postnet_units=8, duration_predictor_channels=8, energy_predictor_channels=8, "
        "pitch_predictor_channels=8, **{part + '_rate': 0.0 for part in ('encoder_dropout', "
        "'encoder_positional_dropout', 'encoder_attention_dropout', 'decoder_dropout', "
        "'decoder_positional_dropout', 'decoder_attention_dropout', 'duration_predictor_dropout')}, "
        "speech_decoder_postnet_dropout=0.0, energy_predictor_dropout=0.0, energy_embed_dropout=0.0, "
        "pitch_predictor_dropout=0.0, pitch_embed_dropout=0.0))",
        "input_ids=(torch.arange(14) * 7 % 19 + 1).reshape(2, 7), attention_mask=torch.ones(2, 7).long(), "
        "duration_labels=torch.arange(14).reshape(7, 2).T % 3 + 1, "
        "spectrogram_labels=filled((2, 14, 6), 5, 1.0) + 2.0, "
        "pitch_labels=filled((2, 7, 1), 6, 1.0), energy_labels=filled((2, 7, 1), 7, 1.0)",
    ),
    "hgnet_v2": (
        "HGNetV2ForImageClassification(tr.HGNetV2Config(stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 16, 32], "
        "stage_mid_channels=[8] * 4, stage_out_channels=[16, 16, 32, 32], stage_num_blocks=[1, 1, 2, 1], "
        "stage_numb_of_layers=[2] * 4, hidden_sizes=[16, 16, 32, 32], embedding_size=8, num_labels=3, "
        "use_learnable_affine_block=True))",
        "pixel_values=filled((2, 3, 64, 64), 5, 1.0), labels=torch.tensor([0, 2])",
    ),
    "univnet": (
        "UnivNetModel(tr.UnivNetConfig(model_in_channels=8, model_hidden_channels=4, num_mel_bins=6, "
        "resblock_kernel_sizes=[3, 3], resblock_stride_sizes=[4, 4], resblock_dilation_sizes=[[1, 3], [1, 3]], "
        "kernel_predictor_num_blocks=1, kernel_predictor_hidden_channels=8))",
        "input_features=filled((2, 7, 6), 5, 1.0), noise_sequence=filled((2, 7, 8), 6, 1.0)",
    ),
    "sew_d": (
        "SEWDModel(tr.SEWDConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, "
        "max_position_embeddings=64, position_buckets=16, conv_dim=(8, 8), conv_stride=(4, 2), conv_kernel=(8, 3), "
        "num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, hidden_dropout=0.0, attention_dropout=0.0, "
        "activation_dropout=0.0, feat_proj_dropout=0.0, layerdrop=0.0, apply_spec_augment=False))",
        "input_values=filled((2, 400), 5, 1.0)",
    ),
}

GRADIENTS = (
    START
    + """
def floats(out):
    return [v for v in out.to_tuple() if isinstance(v, torch.Tensor) and v.is_floating_point()]

results = {}
torch.float = torch.float64                       # what models make of themselves: single precision amplifies rounding
for name, (made, inputs) in json.loads(sys.argv[2]).items():
    model = fill(eval("tr." + made)).double()
    keep = {k: v.double() if v.is_floating_point() else v for k, v in eval(f"dict({inputs})").items()}
    runs = [model] if name == "fastspeech2_conformer" or sys.argv[1] == "torch" else [model, torch.compile(model)]
    for k, run in enumerate(runs):
        model.zero_grad()
        outs = floats(run(**keep, return_dict=True))
        sum((o * filled(o.shape, 3, 1.0)).sum() for o in outs if o.requires_grad).backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        results[name if k == 0 else name + " compiled"] = [[numbers(o) for o in outs], numbers(torch.cat(grads))]
    if len(runs) == 1:
        results[name + " compiled"] = results[name]
print(json.dumps(results))
"""
)


@pytest.mark.parametrize(
    "name",
    [name + how for name in SOUND_AND_VISION for how in ("", " compiled") if name + how != "fastspeech2_conformer compiled"],
)
def test_gives_the_gradients_of_torch(both, name):
    assert both(GRADIENTS, json.dumps(SOUND_AND_VISION), part=name, tolerance=1e-6)[1]


COMPILED = (
    START
    + """
results = {}
for name, made in json.loads(sys.argv[2]).items():
    for compiled in (False, True) if sys.argv[1] != "torch" else (False,):
        model = fill(eval("tr." + made)).eval()
        if compiled:
            model.forward = torch.compile(model.forward)
        mask = torch.ones(2, 5, dtype=torch.long)
        mask[1, :2] = 0
        start = dict(inputs=ids[:, :5], attention_mask=mask, pad_token_id=0, max_new_tokens=8,
                     cache_implementation="static" if name == "llama" else None)
        results[name + " compiled" * compiled] = model.generate(**start, do_sample=False).tolist()
        torch.manual_seed(3)
        results[name + " drawn" + " compiled" * compiled] = model.generate(**start, do_sample=True, top_k=20, top_p=0.9).tolist()
if sys.argv[1] == "torch":
    results.update({f"{name} compiled": results[name] for name in [*results]})
else:
    counted = torch.compiler.counters()
    results["counted"] = [sorted(counted["breaks"]), sorted(counted["fallbacks"]), counted["graphs"]]
print(json.dumps(results))
"""
)


def test_generates_compiled(runs):
    got, want = runs(COMPILED, json.dumps({name: MODELS[name] for name in ("gpt2", "llama")}))
    for name in ("gpt2", "llama"):
        assert got[name] == got[f"{name} compiled"] and (want is None or got[name] == want[name])
        assert got[f"{name} drawn"] == got[f"{name} drawn compiled"] != got[name]
    assert got["counted"] == [[], [], 5]  # a first call, one step, steps of any length; with a static cache two
