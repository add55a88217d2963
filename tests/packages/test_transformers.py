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

TRAIN = START + """
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


@pytest.mark.parametrize("name", MODELS)
def test_trains_and_generates_like_torch(both, name):
    result = both(TRAIN, json.dumps(MODELS), part=name)
    assert result["losses"][2] < result["losses"][0]


FILES = START + """
model = fill(eval("tr." + sys.argv[2])).eval()
model.save_pretrained(FOLDER)
again = type(model).from_pretrained(FOLDER).eval()
halves = type(model).from_pretrained(FOLDER, dtype=torch.bfloat16).eval()
with torch.no_grad():
    first, second, near = (m(**given("bert")).logits.float() for m in (model, again, halves))
print(json.dumps(dict(same=bool((first == second).all()), files=sorted(os.listdir(FOLDER)), kind=str(halves.dtype),
                      near=bool((near - first).abs().max() < 0.1 * first.abs().max()))))
"""


def test_goes_through_files(both):
    result = both(FILES, MODELS["bert"])
    assert result["same"] and result["near"] and "model.safetensors" in result["files"]
