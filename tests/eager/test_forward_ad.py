"""torch.autograd.forward_ad: levels open and close, and no tensor has a tangent."""

import pytest

import flambeau as fb
from flambeau._dynamo.testing import CompileCounter
from flambeau.autograd import forward_ad


def test_levels_of_dual_tensors():
    """No tensor has a tangent, which is what packages ask (kornia 0.9 does in every clamp)."""
    x = fb.ones(2, requires_grad=True)
    assert forward_ad.unpack_dual(x).primal is x and forward_ad.unpack_dual(x).tangent is None
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with forward_ad.dual_level() as level:
        primal, tangent = forward_ad.unpack_dual(x)
        assert level == 0 and primal._base is x and tangent is None
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match=r"make_dual does not exist in flambeau: torch\.func\.jvp"):
            forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="not the last one"):
            forward_ad.exit_dual_level(level=3)
    with pytest.raises(RuntimeError, match="must be a positive number"):
        forward_ad.exit_dual_level()

    def f(x):
        return x * 2 if forward_ad.unpack_dual(x).tangent is None else x

    assert fb.func.jvp(f, (fb.ones(2),), (fb.ones(2),))[1].tolist() == [2, 2]
    counter = CompileCounter()
    assert fb.compile(f, backend=counter, fullgraph=True)(fb.ones(2)).tolist() == [2, 2] and counter.frame_count == 1
