"""A dictionary and a list as arguments: entries by key, members by place, length."""

import flambeau as torch


def f(batch, extra):
    total = batch["x"] * batch.get("scale", 1)
    for each in extra:
        total = total + each
    return {"total": total, "count": len(extra)}


def run(compile):
    return compile(f)({"x": torch.ones(3), "scale": 2}, [torch.ones(3), torch.zeros(3)])
