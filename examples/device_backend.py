"""A device in a C++ file (examples/device.cpp): tensors in memory that the host cannot read, ops that the device runs.

    python examples/device_backend.py

The file is compiled and registered; then a model is trained on the device and, from the same weights, on the host. What the
device has no kernel for runs on the host and is counted.
"""

import copy
import pathlib

import common
import flambeau as torch
from flambeau import extend, nn

SOURCE = pathlib.Path(__file__).with_name("device.cpp")


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=25)
    toy = extend.load_device(SOURCE.read_text())
    torch.manual_seed(9)
    host = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    there = copy.deepcopy(host).to("toy")
    x = torch.randn(32, 3)
    y = x.prod(dim=1, keepdim=True)
    seen = []
    for model, data in ((host, (x, y)), (there, (x.to("toy"), y.to("toy")))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(options.steps):
            loss = ((model(data[0]) - data[1]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seen.append(losses)
    apart = max(abs(a - b) for a, b in zip(*seen))
    moved = torch.arange(6.0, device="toy:1").view(2, 3)
    moved[:, 1:] += 10
    fallbacks = {r: n for r, n in torch.compiler.counters()["fallbacks"].items() if r.startswith("toy")}
    print(f"  the device ran {toy.ran}")
    print("  " + "\n  ".join(f"{reason} ({times} times)" for reason, times in fallbacks.items()))
    claims = [
        ("training on the device is training on the host", f"worst difference of losses {apart:.1e}", apart < 1e-4),
        ("the loss falls", f"{seen[1][0]:.3f} -> {seen[1][-1]:.3f}", seen[1][-1] < seen[1][0]),
        ("parameters and gradients stay there", there[0].weight.device, there[0].weight.grad.device.type == "toy"),
        ("products ran there", toy.ran.get("matmul", 0), toy.ran.get("matmul", 0) >= 2 * options.steps),
        ("views and writes through them work", moved.tolist(), moved.tolist() == [[0, 11, 12], [3, 14, 15]]),
    ]
    return common.check(claims)


if __name__ == "__main__":
    main()
