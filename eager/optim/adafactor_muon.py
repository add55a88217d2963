"""Optimizers of matrices: Adafactor (second moments by rows and columns) and Muon (orthogonal updates)."""

import math

from .. import api
from .optimizer import blended, larger, moved, number_of, smaller
from .single_tensor import PerParameter, check_common, check_range


class Adafactor(PerParameter):
    """`eps` is (floor of second moments, the type's epsilon if None; floor of the parameters' size), `d` clips updates."""

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None, maximize=False
    ):
        check_common(lr, 0.0, weight_decay)
        check_range(beta2_decay <= 0.0, "beta2_decay", beta2_decay)
        check_range(eps[0] is None or eps[0] >= 0.0, "epsilon1", eps[0])
        check_range(eps[1] >= 0.0, "epsilon2", eps[1])
        check_range(d >= 1.0, "clipping threshold d", d)
        super().__init__(
            params,
            dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach, maximize=maximize),
        )

    def _fl_slots(self, p, group):
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if p.dim() < 2:
            return {"variance": api.zeros_like(p)}
        *front, rows, columns = p.shape
        return {"row_var": p.new_zeros((*front, rows, 1)), "col_var": p.new_zeros((*front, 1, columns))}

    def _fl_step_one(self, p, group):
        state, lr = self._fl_state_of(p, group), number_of(group["lr"])
        state["step"] += 1
        self._fl_update(p, -p.grad if group["maximize"] else p.grad, state, group, lr, number_of(state["step"]))

    def _fl_update(self, p, grad, state, group, lr, t):
        floor = api.finfo(p.dtype).eps if group["eps"][0] is None else group["eps"][0]
        size = number_of(p.norm(2)) / p.numel() ** 0.5
        rate = larger(size, group["eps"][1]) * smaller(1 / t**0.5, lr)
        p.mul_(1 - lr * group["weight_decay"])  # the size is that before
        update = self._fl_moment(grad, state, t ** group["beta2_decay"], floor).clamp_(min=floor * floor).rsqrt_().mul_(grad)
        moved(p, update, -rate / larger(number_of(update.norm(2)) / (p.numel() ** 0.5 * group["d"]), 1.0))

    @staticmethod
    def _fl_moment(grad, state, rate, floor):
        """The second moment of each element; that of a matrix is an outer product over its mean."""
        if grad.dim() < 2:
            return blended(state["variance"], grad * grad, rate).clone()
        rows = blended(state["row_var"], grad.square().mean(-1, keepdim=True), rate)
        columns = blended(state["col_var"], grad.square().mean(-2, keepdim=True), rate)
        return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=floor))


class Muon(PerParameter):
    """Momentum whose update is made nearly orthogonal by `ns_steps` Newton-Schulz steps in bfloat16; matrices only.
    `adjust_lr_fn`: None or "original" (by the ratio of sides), or "match_rms_adamw"."""

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.7750, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ):
        check_common(lr, 0.0, weight_decay)
        check_range(momentum >= 0.0, "momentum value", momentum)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            dict(
                lr=lr,
                weight_decay=weight_decay,
                momentum=momentum,
                nesterov=nesterov,
                ns_coefficients=ns_coefficients,
                eps=eps,
                ns_steps=ns_steps,
                adjust_lr_fn=adjust_lr_fn,
            ),
        )
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}")

    def _fl_make_state(self, p, group):
        self.state[p]["momentum_buffer"] = api.zeros_like(p)

    def _fl_step_one(self, p, group):
        state, grad, lr = self._fl_state_of(p, group), p.grad, number_of(group["lr"])
        kept = state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
        update = _orthogonal(grad.lerp(kept, group["momentum"]) if group["nesterov"] else kept, group)
        p.mul_(1 - lr * group["weight_decay"])
        moved(p, update, -lr * _factor(group["adjust_lr_fn"], *p.shape))


def _factor(how, rows, columns):
    return 0.2 * math.sqrt(max(rows, columns)) if how == "match_rms_adamw" else math.sqrt(max(1, rows / columns))


def _orthogonal(update, group):
    a, b, c = group["ns_coefficients"]
    x = update.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.T
        x = api.addmm(x, api.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
