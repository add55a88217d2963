"""L-BFGS: steps along the inverse curvature that the last `history_size` changes of the gradient tell.

The whole parameter vector is one flat tensor. The closure is called several times per step; the optional line search
looks for a point that satisfies the strong Wolfe conditions.
"""

import math
from typing import Any

from .. import api
from ..autograd import enable_grad, no_grad
from .optimizer import Optimizer, as_float


class LBFGS(Optimizer):
    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        if not as_float(lr) >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(
            params,
            dict(
                lr=lr,
                max_iter=max_iter,
                max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                tolerance_grad=tolerance_grad,
                tolerance_change=tolerance_change,
                history_size=history_size,
                line_search_fn=line_search_fn,
            ),
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # -- the parameters as one vector

    def _gather_flat_grad(self):
        return api.cat([api.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1) for p in self._params])

    def _fl_move(self, t, direction):
        offset = 0
        for p in self._params:
            n = p.numel()
            p.add_(direction[offset : offset + n].view_as(p), alpha=t)
            offset += n

    def _fl_restore(self, values):
        for p, value in zip(self._params, values):
            p.copy_(value)

    def _fl_probe(self, closure, start, t, direction):
        """(loss, gradient) at start + t * direction; the parameters stay where they were."""
        self._fl_move(t, direction)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._fl_restore(start)
        return loss, grad

    # -- one step: up to max_iter iterations

    @no_grad()
    def step(self, closure):
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first: Any = closure()
        loss, grad = float(first), self._gather_flat_grad()
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        self._fl_iterate(closure, state, group, loss, grad)
        return first

    def _fl_iterate(self, closure, state, group, loss, grad):
        evaluations = 1
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._fl_direct(state, grad, group["history_size"])
            state["prev_flat_grad"], previous = grad.clone(), loss
            lr, direction = as_float(group["lr"]), state["d"]
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction).item()
            state["t"] = t
            if slope > -group["tolerance_change"]:
                return
            last = iteration == group["max_iter"]
            t, loss, grad, used = self._fl_advance(closure, group, t, direction, loss, grad, slope, last)
            evaluations += used
            state["t"] = t
            state["func_evals"] += used
            small = group["tolerance_change"]
            if last or evaluations >= group["max_eval"] or grad.abs().max() <= group["tolerance_grad"]:
                return
            if direction.mul(t).abs().max() <= small or abs(loss - previous) < small:
                return

    def _fl_advance(self, closure, group, t, direction, loss, grad, slope, last):
        """Move along the direction: (step taken, loss, gradient, evaluations of the closure)."""
        if group["line_search_fn"] == "strong_wolfe":
            start = [p.clone() for p in self._params]
            loss, grad, t, used = strong_wolfe(
                lambda at: self._fl_probe(closure, start, at, direction), t, direction, loss, grad, slope
            )
            self._fl_move(t, direction)
            return t, loss, grad, used
        self._fl_move(t, direction)
        if last:
            return t, loss, grad, 0
        with enable_grad():
            loss = float(closure())
        return t, loss, self._gather_flat_grad(), 1

    def _fl_direct(self, state, grad, history):
        """The direction: the two-loop recursion over the remembered changes of position and gradient."""
        if state["n_iter"] == 1:
            state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        change, step = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(step).item()
        changes, steps, inverse = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature > 1e-10:
            for kept, new in ((changes, change), (steps, step), (inverse, 1.0 / curvature)):
                if len(kept) == history:
                    kept.pop(0)
                kept.append(new)
            state["H_diag"] = curvature / change.dot(change).item()
        q, alphas = grad.neg(), []
        for y, s, r in zip(reversed(changes), reversed(steps), reversed(inverse)):
            alphas.append(s.dot(q).item() * r)
            q.add_(y, alpha=-alphas[-1])
        direction = q.mul(state["H_diag"])
        for y, s, r, alpha in zip(changes, steps, inverse, reversed(alphas)):
            direction.add_(s, alpha=alpha - y.dot(direction).item() * r)
        state["d"] = direction


def cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with these values and slopes has its minimum, within the bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    at = (
        x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        if x1 <= x2
        else x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    )
    return min(max(at, low), high)


def strong_wolfe(probe, t, direction, f, g, slope, c1=1e-4, c2=0.9, tolerance=1e-9, limit=25):
    """(loss, gradient, step, evaluations): a step with enough decrease and a slope that is flat enough.

    First the step is enlarged until it brackets such a point, then the bracket is narrowed.
    """
    width = direction.abs().max().item()
    g = g.clone()
    points, used, done = _bracket(probe, t, direction, f, g, slope, c1, c2, limit)
    if done:
        _, loss, grad, _ = points[0]
        return loss, grad, points[0][0], used
    if len(points) == 1:
        points = [(0, f, g, slope), points[0]]
    loss, grad, t, more = _zoom(probe, points, direction, f, slope, c1, c2, tolerance, limit - used + 1, width)
    return loss, grad, t, used + more


def _bracket(probe, t, direction, f, g, slope, c1, c2, limit):
    """([(step, loss, gradient, slope)] x 1 or 2, evaluations, whether the first one is the answer)"""
    before = (0, f, g, slope)
    point = _point(probe, t, direction)
    used = 1
    for iteration in range(limit):
        t, value, grad, here = point
        if value > f + c1 * t * slope or (iteration > 1 and value >= before[1]):
            return [before, point], used, False
        if abs(here) <= -c2 * slope:
            return [point], used, True
        if here >= 0:
            return [before, point], used, False
        low, high = t + 0.01 * (t - before[0]), t * 10
        longer = cubic_minimum(before[0], before[1], before[3], t, value, here, bounds=(low, high))
        before, point = point, _point(probe, longer, direction)
        used += 1
    return [(0, f, g, slope), point], used, False


def _point(probe, t, direction):
    loss, grad = probe(t)
    return t, loss, grad.clone(), grad.dot(direction).item()


def _zoom(probe, points, direction, f, slope, c1, c2, tolerance, limit, width):
    low, high = points if points[0][1] <= points[1][1] else points[::-1]
    stuck, used = False, 0
    for _ in range(max(limit, 0)):
        if abs(high[0] - low[0]) * width < tolerance:
            break
        t, stuck = _inside(cubic_minimum(low[0], low[1], low[3], high[0], high[1], high[3]), low, high, stuck)
        point = _point(probe, t, direction)
        used += 1
        if point[1] > f + c1 * t * slope or point[1] >= low[1]:
            high = point
            if low[1] > high[1]:
                low, high = high, low
            continue
        if abs(point[3]) <= -c2 * slope:
            return point[1], point[2], t, used
        if point[3] * (high[0] - low[0]) >= 0:
            high = low
        low = point
    return low[1], low[2], low[0], used


def _inside(t, low, high, stuck):
    """Keep away from the ends of the bracket, the second time that a step comes close to one."""
    left, right = min(low[0], high[0]), max(low[0], high[0])
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, True
