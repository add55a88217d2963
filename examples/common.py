"""What the examples share: scikit-learn's digits as tensors, shuffled batches, options, and the claims at the end.

Each example is a `main(arguments)` that trains or shows something for a few seconds, prints what it claims with what was
seen, and exits with 1 if a claim does not hold. `--short` takes few steps and leaves out what needs many.
"""

import argparse
import sys

import flambeau as torch


def options(doc, arguments, steps, **more):
    """--steps (this many unless given), --short (a tenth), --eager, and flags of the example's own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--short", action="store_true", help="few steps; claims about the result of training are left out")
    parser.add_argument("--eager", action="store_true", help="train without compiling")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=text)
    found = parser.parse_args(arguments)
    found.steps = max(3, found.steps // 25) if found.short else found.steps
    return found


def digits():
    """(images, labels) to train on and (images, labels) to validate with: 1,437 and 360 images of 1 x 8 x 8 in [0, 1]."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x.reshape(-1, 1, 8, 8) / 16, dtype=torch.float32)
    labels = torch.tensor(y)
    held_out = torch.arange(len(labels)) % 5 == 0
    return (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])


def batches(tensors, size, steps):
    """`steps` times `size` rows of each tensor, drawn without repetition within an epoch."""
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(order) < size:
            order = torch.randperm(len(tensors[0]))
        rows, order = order[:size], order[size:]
        yield tuple(t[rows] for t in tensors)


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def check(claims):
    """Prints (what is claimed, what was seen, whether it holds); ends the program if one does not. Returns the claims."""
    failed = [text for text, _, holds in claims if not holds]
    for text, seen, holds in claims:
        print(f"  {'ok  ' if holds else 'FAIL'}  {text}: {seen}")
    if failed:
        sys.exit(1)
    return claims
