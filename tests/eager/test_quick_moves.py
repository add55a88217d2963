"""Elements put elsewhere in one step, with gradients in one step: against views and copies one by one."""

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F


def checked(function, by_hand, x):
    found, wanted = [], []
    for f, told in ((function, found), (by_hand, wanted)):
        leaf = x.detach().clone().requires_grad_()
        out = f(leaf)
        (grad,) = fb.autograd.grad(
            (out * out * fb.arange(1.0, out.numel() + 1).reshape(out.shape)).sum(), leaf, create_graph=True
        )
        (second,) = fb.autograd.grad((grad * grad).sum(), leaf)
        told += [out, grad, second, f(x)]
    assert found[0].is_contiguous() == found[3].is_contiguous()
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_pixels_and_channels():
    def up(x, r):
        n, c, h, w = x.shape
        return x.reshape(n, c // r**2, r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)

    def down(x, r):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h // r, w // r)

    def mixed(x, g):
        n, c, h, w = x.shape
        return x.reshape(n, g, c // g, h, w).transpose(1, 2).reshape(n, c, h, w)

    for x in (
        fb.randn(2, 36, 6, 12),
        fb.randn(6, 36, 12, 2).transpose(0, 3),
        fb.randn(2, 36, 6, 12).to(memory_format=fb.channels_last),
    ):
        for r in (1, 2, 3, 6):
            checked(lambda x, r=r: F.pixel_shuffle(x, r), lambda x, r=r: up(x, r).contiguous(), x)
            checked(lambda x, r=r: F.channel_shuffle(x, r), lambda x, r=r: mixed(x, r).contiguous(), x)
            if x.shape[-1] % r == 0 and x.shape[-2] % r == 0:
                checked(lambda x, r=r: F.pixel_unshuffle(x, r), lambda x, r=r: down(x, r).contiguous(), x)
    x = fb.randn(1, 4, 2, 2)
    for r in (1, 2):
        y = F.pixel_shuffle(x, r)
        y.zero_()
        assert x.abs().min() > 0


def test_diagonals_and_rolls():
    for x in (fb.randn(4), fb.randn(2, 3), fb.randn(3, 2).t(), fb.randn(1)):
        for offset in (0, 1, -2):

            def by_hand(x, offset=offset):
                n = x.shape[-1] + abs(offset)
                rows, columns = fb.arange(x.shape[-1]) + max(-offset, 0), fb.arange(x.shape[-1]) + max(offset, 0)
                before = [fb.arange(m).unsqueeze(-1) for m in x.shape[:-1]]
                return x.new_zeros(*x.shape[:-1], n, n).index_put((*before, rows, columns), x)

            checked(lambda x, offset=offset: fb.diag_embed(x, offset), by_hand, x)
    assert fb.diag_embed(fb.randn(2, 3), 0, 0, 2).shape == (3, 2, 3)
    for x in (fb.randn(7), fb.randn(3, 4), fb.randn(4, 3).t(), fb.randn(2, 3, 4)):
        for shifts, dims in ((3, None), (-9, None), (0, None), (2, 0), ((1, 2), (0, -1)), ((1, -1), (0, 0))):
            if isinstance(dims, tuple) and x.ndim == 1:
                continue
            known = dims if dims is None else tuple(d % x.ndim for d in dims) if isinstance(dims, tuple) else dims
            wanted = np.roll(x.numpy(), shifts, known)
            for tracked in (False, True):
                leaf = x.detach().clone().requires_grad_(tracked)
                found = fb.roll(leaf, shifts, dims)
                np.testing.assert_array_equal(found.detach().numpy(), wanted)
                if tracked:
                    seed = fb.randn(*x.shape)
                    back = tuple(-n for n in shifts) if isinstance(shifts, tuple) else -shifts
                    (grad,) = fb.autograd.grad(found, leaf, seed)
                    np.testing.assert_array_equal(grad.numpy(), np.roll(seed.numpy(), back, known))
    assert fb.roll(fb.zeros(0, 3), 2, 0).shape == (0, 3)


def test_drawn_rolls_of_several_dims():
    """Natively, and, with history, by the record: any dims, twice or from behind, any distance, in every size of element."""
    rng, kernel = np.random.default_rng(5), fb.eager.op.op.OPS["roll"].kernels["numpy"]
    for _ in range(300):
        ndim, count = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        x = (rng.standard_normal(rng.integers(0, 6, ndim)) * 9).astype(rng.choice(["f8", "f4", "i2", "i1", "c16", "?"]))
        dims, shifts = (tuple(map(int, rng.integers(-n, n, count))) for n in (ndim, 17))
        wanted = np.roll(x, shifts, dims)
        np.testing.assert_array_equal(fb.from_numpy(x).roll(shifts, dims).numpy(), wanted)
        np.testing.assert_array_equal(kernel(x, shifts, tuple(d % ndim for d in dims)), wanted)
    x = fb.arange(5)
    assert x.roll((2**63 - 1, 3), (0, 0)).tolist() == x.roll((2**63 - 1 + 3) % 5).tolist()


def test_elements_by_several_indices():
    """x[k, l], with negative indices, duplicates and rows of any width, is read and added to by one linear index."""
    for sizes, count in (((3, 5), 9000), ((4, 3, 2), 9000), ((3, 4, 1, 5), 3000), ((200, 7), 8192)):
        x = fb.randn(*sizes)
        k, l = (fb.randint(-n, n, (count,)) for n in sizes[:2])
        flat, place = x.reshape(-1, *sizes[2:]), (k % sizes[0]) * sizes[1] + l % sizes[1]
        checked(lambda x: x[k, l], lambda x: x.reshape(-1, *sizes[2:]).index_select(0, place), x)
        for dtype in (fb.float32, fb.int64, fb.bool, fb.float16, fb.complex64):
            assert fb.equal(x.to(dtype)[k, l], flat.to(dtype)[place])
        values = fb.randint(-3, 4, (count, *sizes[2:])).float()
        wanted = fb.zeros_like(flat).double().index_add(0, place, values.double())
        for dtype in (fb.float32, fb.float64, fb.int64):
            out = fb.zeros(sizes, dtype=dtype).index_put_((k, l), values.to(dtype), accumulate=True)
            assert fb.equal(out.reshape(flat.shape).double(), wanted)
        with pytest.raises(IndexError, match=f"index {sizes[1]} is out of bounds for dimension 1 with size {sizes[1]}"):
            x[k, fb.full((count,), sizes[1])]
