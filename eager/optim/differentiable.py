"""Steps of SGD and Adam that autograd can see (differentiable=True), for gradients through the training of a model.

The parameters must not be leaves (or gradients be off); state is replaced, not overwritten, so that several steps can
be differentiated. The learning rate may be a tensor that requires gradients.
"""

from .. import api


def sgd(p, grad, state, group):
    if group["maximize"]:
        grad = -grad
    if group["weight_decay"]:
        grad = grad + p * group["weight_decay"]
    if group["momentum"]:
        before = state.get("momentum_buffer")
        buffer = grad.detach().clone() if before is None else before * group["momentum"] + grad * (1 - group["dampening"])
        state["momentum_buffer"] = buffer
        grad = grad + buffer * group["momentum"] if group["nesterov"] else buffer
    p.sub_(grad * group["lr"])


def adam(p, grad, state, group):
    (beta1, beta2), lr = group["betas"], group["lr"]
    grad = -grad if group["maximize"] else grad
    if group["weight_decay"] and group["decoupled_weight_decay"]:
        p.mul_(1 - lr * group["weight_decay"])
    elif group["weight_decay"]:
        grad = grad + p * group["weight_decay"]
    state["step"] = state["step"] + 1
    t = state["step"].item()
    state["exp_avg"] = state["exp_avg"] * beta1 + grad * (1 - beta1)
    state["exp_avg_sq"] = spread = state["exp_avg_sq"] * beta2 + grad * grad * (1 - beta2)
    if group["amsgrad"]:
        state["max_exp_avg_sq"] = spread = api.maximum(state["max_exp_avg_sq"], spread)
    scale = (spread / (1 - beta2**t)).sqrt() + group["eps"]
    p.sub_(state["exp_avg"] / (1 - beta1**t) / scale * lr)
