"""A backend of one's own for `compile`: it reads the captured graph, changes it, and gives back what is to run.

    python examples/custom_backend.py

Backends get a captured graph, which is used here in two ways. `counting` walks its nodes: op records with shapes, and estimates
multiplications. `fused` works on it with `torch.fx`'s methods: it finds `relu(x + y)` and puts one function in its place.
"""

import common
import flambeau as torch
from flambeau import fx, nn
from flambeau.nn import functional as F

found = {}


@torch.compiler.register_backend
def counting(graph, example_inputs):
    """Counts ops and multiplications, then runs the graph node by node as it is."""
    ops, products = {}, 0
    for node in graph.calls:
        if node.is_op:
            ops[node.target.name] = ops.get(node.target.name, 0) + 1
        if node.is_op and node.target.name in ("linear", "matmul"):
            products += node.value.numel() * node.inputs[0].value.shape[-1]
    found.update(ops=ops, products=products)
    return graph.forward


def add_relu(x, y):
    """What stands for the two ops; anything that takes tensors and gives tensors would do."""
    found["calls"] = found.get("calls", 0) + 1
    return F.relu(x + y)


def fused(module, example_inputs):
    """Written as for torch.fx: `module.graph` has nodes with op, target, args and users."""
    replaced = 0
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "name", "") == "relu":
            (before,) = node.args
            if getattr(before.target, "name", "") == "add" and len(before.users) == 1:
                with module.graph.inserting_before(node):
                    new = module.graph.call_function(add_relu, before.args)
                node.replace_all_uses_with(new)
                module.graph.erase_node(node)
                replaced += 1
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    found.update(replaced=replaced, code=module.code)
    return module.forward


class Residual(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, width), nn.Linear(width, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        x = images.flatten(1)
        return self.head(F.relu(self.outer(F.relu(self.inner(x))) + x))


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=150)
    torch.manual_seed(8)
    train, (images, labels) = common.digits()
    model = Residual()
    counted = torch.compile(model, backend="counting")
    same = torch.equal(counted(images), model(images))
    step = torch.compile(model, backend=fused)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for x, y in common.batches(train, 64, options.steps):
        loss = F.cross_entropy(step(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(found["code"])
    traced = fx.symbolic_trace(model)
    layers = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    right = common.accuracy(model, images, labels)
    claims = [
        ("the captured graph has the ops of forward", found["ops"], found["ops"].get("linear") == 3 and same),
        ("multiplications of one call", found["products"], found["products"] == 360 * (2 * 64 * 64 + 64 * 10)),
        (
            "one pair became one call",
            f"{found['replaced']}, called {found['calls']} times",
            found["replaced"] == 1 and found["calls"] == options.steps,
        ),
        ("symbolic_trace sees the layers", layers, layers == ["inner", "outer", "head"]),
        ("the loss falls", f"{losses[0]:.2f} -> {losses[-1]:.2f}", losses[-1] < losses[0]),
    ]
    if not options.short:
        claims.append(("90% of 360 held-out digits are right", f"{right:.1%}", right >= 0.9))
    return common.check(claims)


if __name__ == "__main__":
    main()
