"""The formulas of the optimizers whose step treats every element alike. Sources stand at the optimizers themselves.

`p` is the parameter and `g` its gradient; `decayed` is how PyTorch's optimizers turn and decay them first.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any

from ..declare.expr import s
from .update import update


def decayed(p: Any, g: Any, lr: Any, weight_decay: Any, maximize: Any, decoupled: Any = False) -> tuple[Any, Any]:
    """Return the parameter and the gradient after weight decay: of the parameter itself if `decoupled`."""
    g = s.where(maximize, -1.0, 1.0) * g + s.where(decoupled, 0.0, weight_decay) * p
    return s.where(decoupled, 1.0 - lr * weight_decay, 1.0) * p, g


def _sgd(p, g, momentum_buffer=None, *, first, lr, momentum, dampening, weight_decay, nesterov, maximize):
    g = s.where(maximize, -1.0, 1.0) * g + weight_decay * p
    if momentum_buffer is None:
        return p - lr * g
    buffer = g if first else momentum_buffer * momentum + g * (1.0 - dampening)
    # Nesterov's step looks one momentum ahead
    step = s.where(nesterov, 1.0, 0.0) * g + s.where(nesterov, momentum, 1.0) * buffer
    return p - lr * step, buffer


sgd = update("sgd_step", _sgd, ["", "momentum_buffer", "momentum_buffer first"])


def _adam(p, g, exp_avg, exp_avg_sq, max_exp_avg_sq=None, *, step, lr, beta1, beta2, eps, weight_decay, maximize,
          decoupled):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, maximize, decoupled)
    mean = exp_avg + (1.0 - beta1) * (g - exp_avg)
    square = exp_avg_sq * beta2 + (1.0 - beta2) * g * g
    largest = square if max_exp_avg_sq is None else s.maximum(max_exp_avg_sq, square)
    root = s.sqrt(largest) * (1.0 / (1.0 - beta2**step) ** 0.5) + eps
    p = p - (lr / (1.0 - beta1**step)) * (mean / root)
    return (p, mean, square) if max_exp_avg_sq is None else (p, mean, square, largest)


adam = update("adam_step", _adam, ["", "max_exp_avg_sq"])


def _nadam(p, g, exp_avg, exp_avg_sq, *, step, mu, mu_next, mu_product, lr, beta1, beta2, eps, weight_decay, maximize,
           decoupled):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, maximize, decoupled)
    mean = exp_avg + (1.0 - beta1) * (g - exp_avg)
    square = exp_avg_sq * beta2 + (1.0 - beta2) * g * g
    root = s.sqrt(square * (1.0 / (1.0 - beta2**step))) + eps
    ahead = (lr * (1.0 - mu) / (1.0 - mu_product)) * g + (lr * mu_next / (1.0 - mu_product * mu_next)) * mean
    return p - ahead / root, mean, square


nadam = update("nadam_step", _nadam)


def _radam(p, g, exp_avg, exp_avg_sq, *, rectified, step, rectification, lr, beta1, beta2, eps, weight_decay, maximize,
           decoupled):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, maximize, decoupled)
    mean = exp_avg + (1.0 - beta1) * (g - exp_avg)
    square = exp_avg_sq * beta2 + (1.0 - beta2) * g * g
    size = lr / (1.0 - beta1**step)
    if rectified:
        p = p - (size * rectification * (1.0 - beta2**step) ** 0.5) * (mean / (s.sqrt(square) + eps))
    else:
        p = p - size * mean
    return p, mean, square


radam = update("radam_step", _radam, ["", "rectified"])


def _adamax(p, g, exp_avg, exp_inf, *, step, lr, beta1, beta2, eps, weight_decay, maximize):
    p, g = decayed(p, g, lr, weight_decay, maximize)
    mean = exp_avg + (1.0 - beta1) * (g - exp_avg)
    norm = s.maximum(exp_inf * beta2, s.abs(g) + eps)
    return p - (lr / (1.0 - beta1**step)) * (mean / norm), mean, norm


adamax = update("adamax_step", _adamax)


def _adagrad(p, g, sum, *, step, lr, lr_decay, eps, weight_decay, maximize):
    p, g = decayed(p, g, lr, weight_decay, maximize)
    sum = sum + g * g
    return p - (lr / (1.0 + (step - 1.0) * lr_decay)) * (g / (s.sqrt(sum) + eps)), sum


adagrad = update("adagrad_step", _adagrad)


def _adadelta(p, g, square_avg, acc_delta, *, lr, rho, eps, weight_decay, maximize):
    p, g = decayed(p, g, lr, weight_decay, maximize)
    square = square_avg * rho + (1.0 - rho) * g * g
    delta = s.sqrt(acc_delta + eps) / s.sqrt(square + eps) * g
    return p - lr * delta, square, acc_delta * rho + (1.0 - rho) * delta * delta


adadelta = update("adadelta_step", _adadelta)


def _rmsprop(
    p, g, square_avg, momentum_buffer=None, grad_avg=None, *, lr, alpha, eps, weight_decay, momentum, maximize
):
    p, g = decayed(p, g, lr, weight_decay, maximize)
    square = variance = square_avg * alpha + (1.0 - alpha) * g * g
    results = [square]
    if grad_avg is not None:
        mean = grad_avg + (1.0 - alpha) * (g - grad_avg)
        variance = square - mean * mean
    step = g / (s.sqrt(variance) + eps)
    if momentum_buffer is not None:
        step = momentum_buffer * momentum + step
        results.append(step)
    if grad_avg is not None:
        results.append(mean)
    return p - lr * step, *results


rmsprop = update("rmsprop_step", _rmsprop, ["", "momentum_buffer", "grad_avg", "momentum_buffer grad_avg"])


def _rprop(p, g, prev, step_size, *, eta_minus, eta_plus, smallest, largest, maximize):
    g = s.where(maximize, -1.0, 1.0) * g
    turn = g * prev
    factor = s.where(turn > 0.0, eta_plus, s.where(turn < 0.0, eta_minus, 1.0))
    size = s.minimum(s.maximum(step_size * factor, smallest), largest)
    g = s.where(turn < 0.0, 0.0, g)  # after a turn, stand still once
    return p - s.sign(g) * size, g, size


rprop = update("rprop_step", _rprop)


def _asgd(p, g, ax, *, averaging, eta, mu, lr, lambd, weight_decay, maximize):
    p, g = decayed(p, g, lr, weight_decay, maximize)
    p = p * (1.0 - lambd * eta) - eta * g
    return p, ax + mu * (p - ax) if averaging else p


# Not steps of an optimizer, and one call over many tensors all the same
average = update("average_step", lambda p, g, *, weight: p + weight * (g - p))
scale = update("scale_step", lambda p, g, *, factor: p * factor)
clip = update("clip_step", lambda p, g, *, bound: s.minimum(s.maximum(p, -bound), bound))
asgd = update("asgd_step", _asgd, ["", "averaging"])
