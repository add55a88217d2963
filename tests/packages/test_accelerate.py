"""accelerate: a loop through its Accelerator, with accumulated and clipped gradients, state saved and taken up again."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed")

PROGRAM = """
import accelerate
from torch import nn
accelerate.utils.set_seed(7)
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
model = fill(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
data = torch.utils.data.TensorDataset(filled((20, 6), 1, 1.0), torch.arange(20) * 7 % 3)
loader = torch.utils.data.DataLoader(data, batch_size=5)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

def epoch():
    seen = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(model.parameters(), 0.1) if accelerator.sync_gradients else 0.0
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        seen += [float(accelerator.gather(loss.detach()).mean()), float(norm)]
    return seen

result = dict(first=epoch())
accelerator.save_state(FOLDER)
result["files"] = sorted(os.listdir(FOLDER))
result["second"] = epoch()
accelerator.load_state(FOLDER)
result["again"] = epoch()
with torch.no_grad():
    outs = [accelerator.gather_for_metrics((model(x), y)) for x, y in loader]
result["gathered"] = [list(torch.cat(part).shape) for part in zip(*outs)]
result["weight"] = numbers(accelerator.unwrap_model(model)[0].weight)
compiled = accelerator.prepare(torch.compile(nn.Linear(6, 2)))
result["unwrapped"] = type(accelerator.unwrap_model(compiled, keep_torch_compile=False)).__name__
result["rate"] = scheduler.get_last_lr()
result["device"] = [str(accelerator.device), accelerator.num_processes, accelerator.is_main_process]
with accelerate.init_empty_weights():
    result["empty"] = str(nn.Linear(3, 2).weight.device)
print(json.dumps(result))
"""


def test_a_loop_stops_and_goes_on(both):
    result = both(PROGRAM)
    assert result["again"] == result["second"] != result["first"] and "model.safetensors" in result["files"]
