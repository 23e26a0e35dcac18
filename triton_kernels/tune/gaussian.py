"""Gaussian-process regression over the rows of a table, grown one observation at a time.

Matérn 5/2 with a length for each tunable; lengths, height and noise by maximum a posteriori. The factor of the
covariance and its product with every row are kept and extended, so that another observation costs one row of the
kernel and one pass over what is kept: 3 ms at 20,000 rows and 200 observations.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.2, 4.2.1 and 5.4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_ROOT5 = math.sqrt(5.0)


class Process:
    """Mean and deviation of a function at every row of `points`, from its values at some of them."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = np.ascontiguousarray(points, np.float32)
        self.rows: list[int] = []
        d = points.shape[1]
        self.lengths = np.full(d, 0.6 * math.sqrt(max(d, 1) / 3.0))
        self.noise = 1e-2
        self._room(64)
        self._scaled = self.points / self.lengths.astype(np.float32)
        self._norms = (self._scaled**2).sum(1)

    def _room(self, n: int) -> None:
        self._factor = np.zeros((n, n))
        self._cross = np.zeros((n, len(self.points)), np.float32)  # factor^-1 k(observed, every row)
        self._variance = np.ones(len(self.points), np.float32)

    def observe(self, row: int) -> None:
        """Take a row among the observed; its value is given to `predict`."""
        n = len(self.rows)
        if n == len(self._factor):
            factor, cross = self._factor, self._cross
            variance = self._variance
            self._room(2 * n)
            self._factor[:n, :n], self._cross[:n], self._variance = factor, cross, variance
        new = self._kernel_row(row)
        part = self._cross[:n, row].astype(np.float64)
        own = math.sqrt(max(1.0 + self.noise - float(part @ part), 1e-8))
        self._factor[n, :n], self._factor[n, n] = part, own
        line = self._cross[n]
        np.matmul(part.astype(np.float32), self._cross[:n], out=line)
        np.subtract(new, line, out=line)
        line /= own
        self._variance -= line * line
        self.rows.append(row)

    def _kernel_row(self, row: int) -> np.ndarray:
        at = self._scaled[row]
        square = self._norms + self._norms[row] - 2.0 * (self._scaled @ at)
        return matern(np.maximum(square, 0.0))

    def predict(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation at every row; `y` are the values of `rows`, of mean 0 and deviation 1."""
        n = len(self.rows)
        z = _forward(self._factor[:n, :n], y)
        return z.astype(np.float32) @ self._cross[:n], np.sqrt(np.maximum(self._variance, 1e-10))

    def fit(self, y: np.ndarray, steps: int = 25) -> None:
        """Fit lengths and noise to the observed and build the factor anew."""
        x = self.points[self.rows].astype(np.float64)
        logs = np.log(np.append(self.lengths, self.noise))
        logs = _ascend(lambda p: _posterior(p, x, y), logs, steps)
        self.lengths, self.noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        rows, self.rows = self.rows, []
        self._scaled = self.points / self.lengths.astype(np.float32)
        self._norms = (self._scaled**2).sum(1)
        n = len(rows)
        self._room(max(2 * n, 64))
        near = self._norms[rows][:, None] + self._norms[None, :] - 2.0 * (self._scaled[rows] @ self._scaled.T)
        cross = matern(np.maximum(near, 0.0, out=near))
        self._factor[:n, :n] = np.linalg.cholesky(cross[:, rows].astype(np.float64) + self.noise * np.eye(n))
        self._cross[:n] = np.linalg.inv(self._factor[:n, :n]).astype(np.float32) @ cross
        self._variance -= (self._cross[:n] ** 2).sum(0)
        self.rows = rows


def matern(square: np.ndarray) -> np.ndarray:
    """Matérn 5/2 of squared distances."""
    r = np.sqrt(square) * square.dtype.type(_ROOT5)
    return (1.0 + r + r * r / square.dtype.type(3.0)) * np.exp(-r)


def _forward(factor: np.ndarray, y: np.ndarray) -> np.ndarray:
    """factor^-1 y; NumPy has no triangular solve, and a general one costs less than a millisecond here."""
    return np.linalg.solve(factor, y)


_LENGTH_MEAN, _LENGTH_DEVIATION = math.log(1.0), 1.0
_NOISE_MEAN, _NOISE_DEVIATION = math.log(3e-3), 1.5


def _posterior(logs: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Log posterior of the logarithms of lengths and noise, and its gradient."""
    n, d = x.shape
    lengths, noise = np.exp(logs[:-1]), math.exp(logs[-1])
    apart = (x[:, None, :] - x[None, :, :]) ** 2 / lengths**2
    r = _ROOT5 * np.sqrt(apart.sum(2))
    decay = np.exp(-r)
    k = (1.0 + r + r * r / 3.0) * decay
    try:
        factor = np.linalg.cholesky(k + (noise + 1e-8) * np.eye(n))
    except np.linalg.LinAlgError:
        return -math.inf, np.zeros(d + 1)
    inverse = np.linalg.inv(factor)
    inverse = inverse.T @ inverse
    alpha = inverse @ y
    slope = np.outer(alpha, alpha) - inverse
    value = -0.5 * float(y @ alpha) - float(np.log(np.diag(factor)).sum())
    by_length = 0.5 * np.einsum("ij,ijk->k", slope * ((5.0 / 3.0) * (1.0 + r) * decay), apart)
    by_noise = 0.5 * noise * float(np.trace(slope))
    away = (logs[:-1] - _LENGTH_MEAN) / _LENGTH_DEVIATION
    away_noise = (logs[-1] - _NOISE_MEAN) / _NOISE_DEVIATION
    value -= 0.5 * float(away @ away) + 0.5 * away_noise**2
    gradient = np.append(by_length - away / _LENGTH_DEVIATION, by_noise - away_noise / _NOISE_DEVIATION)
    return value, gradient


def _ascend(function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, steps: int) -> np.ndarray:
    """Uphill by the gradient's signs, each coordinate with a step of its own (Riedmiller's Rprop, 1993)."""
    at, best, best_value = start.copy(), start.copy(), -math.inf
    step, before = np.full(len(start), 0.2), np.zeros(len(start))
    for _ in range(steps):
        value, gradient = function(at)
        if value > best_value:
            best, best_value = at.copy(), value
        agree = np.sign(gradient) * before
        step = np.clip(np.where(agree > 0, 1.3 * step, np.where(agree < 0, 0.5 * step, step)), 1e-3, 0.8)
        before = np.sign(gradient)
        at = np.clip(at + before * step, -7.0, 5.0)
    return best
