"""Programs compiled for CUDA tensors, in a process where cupy is a stand-in whose memory is the host's: launches are run by
triton's interpreter, with the addresses that the driver would get. Prints what differs from eager on the processor as JSON."""

import importlib
import json
import sys
from types import SimpleNamespace

from tests.cuda import fake_cupy
import flambeau as torch
from flambeau import nn
from flambeau.inductor.triton import aot, device, triton_api
from flambeau.nn import functional as F
from flambeau.runtime.config import config


def interpreted(launches):
    def run(addresses, stream, scalars):
        assert isinstance(stream, int)
        tl = importlib.import_module("triton.language")

        def argument(g):
            if g.kind[0] == "*":
                return triton_api.address(found, tl, addresses[g.name], g.kind[1:])
            return triton_api.number(found, tl, scalars[g.name] if g.value is None else g.value, g.kind)

        with triton_api.interpreting() as found:
            for one in launches:
                launched = one.launched
                blocks = {k: tl.float32 if v is tl.bfloat16 else v for k, v in launched.constants}
                triton_api.run_grid(found, one.function, launched.grid, {n: argument(g) for n, g in launched.arguments} | blocks)

    return run


def launched(program, chip, sizes, generated, most_shared, configs, unaligned):
    namespace = triton_api.load(generated.text, interpreted=True)
    return [
        SimpleNamespace(function=namespace[one.kernel], launched=one)
        for one in aot.launches(program, generated, namespace, sizes, configs, unaligned)
    ]


def init(self, where, replay=False, tunes=False):
    self.device, self.replay, self.chip, self.most_shared = where, replay, 90, 232448


def arithmetic(where, wrap):
    x = torch.arange(12.0, device=where).view(3, 4)
    return wrap(lambda x: ((x * 2).softmax(-1), x.sum(), x.t()))(x)


def written(where, wrap):
    x = torch.ones(3, 4, device=where)
    wrap(lambda x: x.mul_(3).add_(1))(x)
    return (x,)


def drawn(where, wrap):
    torch.manual_seed(3)
    return (wrap(lambda x: F.dropout(x, 0.5) + torch.rand(4, 5, device=where))(torch.ones(4, 5, device=where)),)


def broken(where, wrap):
    def f(x):
        y = x * 2
        return y + 1 if y.sum() > 3 else y - 1

    return (wrap(f)(torch.ones(3, device=where)),)


def checked(where, wrap):
    f = wrap(lambda x, i: x[i])
    x, good, bad = torch.arange(5.0, device=where), *(torch.tensor(i, device=where) for i in ([0, 4], [0, 5]))
    try:
        f(x, bad).cpu()
        return ()
    except IndexError:
        return (f(x, good),)


def sizes(where, wrap):
    f = wrap(lambda x: (x @ x.t()).relu())
    return tuple(f(torch.arange(2.0 * n, device=where).view(n, 2)) for n in (3, 5, 7))


def trained(where, wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y, f = torch.randn(6, 8).to(where), torch.tensor([0, 1, 2, 3, 0, 1], device=where), wrap(model)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(f(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return (*losses, *(p.detach() for p in model.parameters()))


def attended(where, wrap):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 20, 8).to(where).requires_grad_() for _ in range(3))
    out = wrap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))(q, k, v)
    (out * out).sum().backward()
    return out.detach(), q.grad, k.grad, v.grad


def between(where, wrap):
    """Calls that eager runs between launches, on what lies in the arena; from an input that begins in the midst of its memory."""
    x = (torch.eye(4) * 2 + torch.arange(16.0).view(4, 4) / 50).reshape(-1)
    x = torch.cat([torch.zeros(1), x]).to(where)[1:].view(4, 4)
    f = wrap(lambda x: ((torch.linalg.inv(x * 2) + 1) @ x).softmax(1) + torch.sort(x * 3)[0])
    return f(x), f(x + 1)


PROGRAMS = (arithmetic, written, drawn, broken, checked, sizes, trained, attended, between)


def main():
    fake_cupy.install()
    device.GpuDevice.__init__, device.GpuDevice.prepare = init, staticmethod(interpreted)
    aot.compile_program = launched
    different = {}
    for program in PROGRAMS:
        try:
            wanted = program("cpu", lambda f: f)
            with config.patch(strict=True):
                found = program("cuda", torch.compile)
            for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
                if a.device.type != "cuda" or not torch.allclose(a.cpu(), b, rtol=1e-4, atol=1e-5):
                    different[program.__name__] = f"result {k} on {a.device}: {a.cpu()} instead of {b}"
        except Exception as error:  # told to the test, which fails
            different[program.__name__] = f"{type(error).__name__}: {error}"
            if "-v" in sys.argv:
                raise
    seen = torch.compiler.counters()
    print(
        json.dumps(
            {"different": different, "fallbacks": seen["fallbacks"], "kernels": seen["kernels"], "programs": len(PROGRAMS)}
        )
    )


if __name__ == "__main__":
    main()
