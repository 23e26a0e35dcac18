"""Gaussian-process regression over the rows of a table, grown one observation at a time.

Matérn 5/2 with a length for each coordinate, of the distance in all tunables together and, to a fifth, of the distances
in each tunable alone: what a tunable does wherever the others stand is then learned from few observations. Lengths and
noise by maximum a posteriori.

The inverse of the covariance's factor and its product with the rows that may still be chosen are kept and extended, so
that another observation costs one row of the kernel and one pass over what is kept. Fitting builds both anew; it keeps
only the rows that promise most as observations become many, so that it stays at a few milliseconds.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.2, 4.2.1 and 5.4.1; Duvenaud,
Nickisch and Rasmussen, Additive Gaussian Processes (2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

_ROOT5 = math.sqrt(5.0)
# On nine recorded spaces, evaluations to 1 % by geometric mean (20 seeds): without 38, with a fifth 36 to 39, with a
# half 41.
ALONE = 0.2
_ELEMENTS = 400_000  # of the product that fitting builds anew
_SCANNED = 1_000_000  # of the product that is gone through for the rows to keep
_PIECE = 32_768
_FITTED = 64  # observations that lengths are fitted to
_LENGTH_MEAN, _LENGTH_DEVIATION = math.log(1.0), 1.0
_NOISE_MEAN, _NOISE_DEVIATION = math.log(3e-3), 1.5

_Side = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows' points, their squared norms, and which values they have


class Process:
    """Mean and deviation of a function at the rows `kept`, from its values at the rows observed.

    codes : of each row, the place among its tunables' values. coordinates : of each tunable, its values' points.
    """

    def __init__(self, codes: np.ndarray, coordinates: Sequence[np.ndarray]) -> None:
        self.codes, self.coordinates = codes, coordinates
        self.owner = np.repeat(np.arange(len(coordinates)), [c.shape[1] for c in coordinates])
        self.lengths, self.noise = self._first(), 1e-2
        self.rows: list[int] = []
        self.expected: np.ndarray | None = None  # what `y` is relative to at every row, where it is not 0
        self.kept = np.arange(len(codes))
        self._scale()
        self._select(self.kept)
        self._room(64)

    @classmethod
    def of(cls, codes: np.ndarray, coordinates: Sequence[np.ndarray], rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The mean at every row, from the values `y`, of mean 0 and deviation 1, at some."""
        process = cls(codes, coordinates)
        process.rows = [int(row) for row in rows]
        process._lengthen(y)
        return process._means(np.array(process.rows), y, np.arange(len(codes)))[0]

    # -- the kernel ----------------------------------------------------------------------------------------------------

    def _scale(self) -> None:
        """What of the kernel the lengths determine: for each tunable its values' points and the kernel between them."""
        starts = np.concatenate([[0], np.cumsum([c.shape[1] for c in self.coordinates])]).astype(int)
        self._values = [
            (c / self.lengths[a:b]).astype(np.float32)
            for c, a, b in zip(self.coordinates, starts[:-1], starts[1:], strict=True)
        ]
        self._between = [matern(((v[:, None] - v[None]) ** 2).sum(2)) for v in self._values]

    def _points(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([v[self.codes[rows, k]] for k, v in enumerate(self._values)], 1)

    def _has(self, rows: np.ndarray) -> np.ndarray:
        """A row for each value of each tunable, 1 where a row has it: with it a sum over tunables is a product."""
        codes = self.codes[rows].T
        each = [codes[k] == np.arange(len(v), dtype=codes.dtype)[:, None] for k, v in enumerate(self._values)]
        return np.concatenate(each).astype(np.float32)

    def _select(self, kept: np.ndarray) -> None:
        """Make these the rows that are predicted."""
        self.kept = kept
        self._sides = self._side(kept)

    def _side(self, rows: np.ndarray) -> _Side:
        points = self._points(rows)
        return points, (points**2).sum(1), self._has(rows)

    def _kernel(self, rows: np.ndarray, side: _Side) -> np.ndarray:
        """Between these rows and those of the other side, a piece at a time that stays in the cache."""
        points = self._points(rows)
        alone = np.concatenate([between[self.codes[rows, k]] for k, between in enumerate(self._between)], 1)
        alone *= np.float32(ALONE / len(self._between))
        own = (points**2).sum(1)[:, None]
        others, norms, has = side
        result = np.empty((len(rows), len(others)), np.float32)
        step = max(_PIECE // max(len(rows), 1), 64)
        for at in range(0, len(others), step):
            square = points @ others[at : at + step].T
            square *= -2.0
            square += own
            square += norms[at : at + step]
            piece = matern(np.maximum(square, 0.0, out=square))
            piece *= np.float32(1.0 - ALONE)
            piece += alone @ has[:, at : at + step]
            result[:, at : at + step] = piece
        return result

    def _covariance(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        a, b = self._points(rows).astype(np.float64), self._points(others).astype(np.float64)
        together = matern(((a[:, None] - b[None]) ** 2).sum(2))
        alone = sum(m[self.codes[rows, k][:, None], self.codes[others, k]] for k, m in enumerate(self._between))
        return (1.0 - ALONE) * together + ALONE / len(self._between) * alone

    # -- observing -----------------------------------------------------------------------------------------------------

    def _room(self, n: int) -> None:
        self._inverse = np.zeros((n, n))  # of the covariance's lower factor
        self._cross = np.zeros((n, len(self.kept)), np.float32)  # its product with k(observed, kept)
        self._variance = np.ones(len(self.kept), np.float32)

    def observe(self, row: int) -> None:
        """Take a row among the observed; its value is given to `predict`."""
        n = len(self.rows)
        if n == len(self._inverse):
            inverse, cross, variance = self._inverse, self._cross, self._variance
            self._room(2 * n)
            self._inverse[:n, :n], self._cross[:n], self._variance = inverse, cross, variance
        at = np.array([row])
        part = self._inverse[:n, :n] @ self._covariance(np.array(self.rows, int), at)[:, 0]
        own = math.sqrt(max(1.0 + self.noise - float(part @ part), 1e-8))
        self._inverse[n, :n] = -(part @ self._inverse[:n, :n]) / own
        self._inverse[n, n] = 1.0 / own
        line = self._cross[n]
        np.matmul(part.astype(np.float32), self._cross[:n], out=line)
        np.subtract(self._kernel(at, self._sides)[0], line, out=line)
        line /= np.float32(own)
        self._variance -= line * line
        self.rows.append(row)

    def predict(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation at the rows kept; `y` are the values of `rows`, of mean 0 and deviation 1."""
        n = len(self.rows)
        z = self._inverse[:n, :n] @ y
        return z.astype(np.float32) @ self._cross[:n], np.sqrt(np.maximum(self._variance, 1e-10))

    def fit(self, y: np.ndarray, also: np.ndarray) -> None:
        """Fit lengths and noise to the observed and build the factor anew.

        Where that would take long for all rows, those that promise most are kept, and these `also`.
        """
        rows = np.array(self.rows, int)
        self._lengthen(y)
        most = max(_ELEMENTS // len(rows), 500)
        if len(self.codes) == len(self.kept) <= most:
            points = self._points(self.kept)
            self._sides = points, (points**2).sum(1), self._sides[2]
        else:
            self._select(np.union1d(self._promising(rows, y, most), also))
        self._again()

    def _lengthen(self, y: np.ndarray) -> None:
        """Fit lengths and noise, to no more observations than that takes milliseconds."""
        some = np.arange(len(y))
        if len(some) > _FITTED:  # half the best, half by chance
            order = np.argsort(y)
            rest = np.random.default_rng(len(y)).permutation(order[_FITTED // 2 :])
            some = np.concatenate([order[: _FITTED // 2], rest[: _FITTED // 2]])
        rows = np.array(self.rows, int)
        x = np.concatenate([c[self.codes[rows[some], k]] for k, c in enumerate(self.coordinates)], 1)
        logs = np.log(np.append(self.lengths, self.noise))
        logs = _ascend(lambda p: _posterior(p, x, y[some], self.owner), logs, 25 if len(y) < 32 else 10)
        self.lengths, self.noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        self._scale()

    def _first(self) -> np.ndarray:
        """The lengths before any are fitted."""
        return np.full(len(self.owner), 0.6 * math.sqrt(max(len(self.owner), 1) / 3.0))

    def evidence(self, y: np.ndarray) -> float:
        """The log posterior of the values, with lengths fitted to them alone."""
        rows = np.array(self.rows, int)
        x = np.concatenate([c[self.codes[rows, k]] for k, c in enumerate(self.coordinates)], 1)
        logs = _ascend(lambda p: _posterior(p, x, y, self.owner), np.log(np.append(self._first(), 1e-2)), 12)
        return _posterior(logs, x, y, self.owner)[0]

    def _promising(self, rows: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
        """The rows with the largest expected improvement, as if the nearest observation alone told of deviations."""
        some = np.arange(len(self.codes))
        if len(some) * len(rows) > _SCANNED:  # those kept, and others by chance
            rng = np.random.default_rng(len(rows))
            some = np.union1d(self.kept, rng.integers(len(some), size=max(_SCANNED // len(rows), most)))
        mean, near = self._means(rows, y, some)
        deviation = np.sqrt(np.maximum(1.0 - near**2, 1e-4))
        lowest = np.float32(y.min())
        if self.expected is not None:
            mean += self.expected[some]
            lowest = np.float32((y + self.expected[rows]).min())
        z = (lowest - mean) / deviation
        # of the expected improvement's logarithm what orders rows: both grow with z and with the deviation
        score = np.where(z > 0, z, -0.5 * z * z) + np.log(deviation)
        return some[np.argpartition(-score, most)[:most]] if len(some) > most else some

    def _means(self, rows: np.ndarray, y: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean at these others, and the covariance with the observation nearest to each."""
        inverse = np.linalg.inv(self._covariance(rows, rows) + self.noise * np.eye(len(rows)))
        weights = (inverse @ y).astype(np.float32)
        mean, near = np.empty((2, len(others)), np.float32)
        for at in range(0, len(others), 4096):
            kernel = self._kernel(rows, self._side(others[at : at + 4096]))
            mean[at : at + 4096], near[at : at + 4096] = weights @ kernel, kernel.max(0)
        return mean, near

    def keep(self, rows: np.ndarray) -> None:
        """Predict these rows too."""
        known = np.zeros(len(self.codes), bool)
        known[self.kept] = True
        new = rows[~known[rows]]
        if not len(new):
            return
        observed, n, side = np.array(self.rows, int), len(self.rows), self._side(new)
        cross = np.zeros((len(self._cross), len(new)), np.float32)
        cross[:n] = self._inverse[:n, :n].astype(np.float32) @ self._kernel(observed, side)
        self._cross = np.concatenate([self._cross, cross], 1)
        self._variance = np.append(self._variance, 1.0 - np.einsum("ij,ij->j", cross, cross))
        self.kept = np.concatenate([self.kept, new])
        points, norms, has = self._sides
        self._sides = np.concatenate([points, side[0]]), np.append(norms, side[1]), np.concatenate([has, side[2]], 1)

    def _again(self) -> None:
        rows, n = np.array(self.rows, int), len(self.rows)
        self._room(max(2 * n, 64))
        if n:
            factor = np.linalg.cholesky(self._covariance(rows, rows) + self.noise * np.eye(n))
            self._inverse[:n, :n] = np.linalg.inv(factor)
            self._cross[:n] = self._inverse[:n, :n].astype(np.float32) @ self._kernel(rows, self._sides)
            self._variance -= np.einsum("ij,ij->j", self._cross[:n], self._cross[:n])


def matern(square: np.ndarray) -> np.ndarray:
    """Matérn 5/2 of squared distances."""
    r = np.sqrt(square)
    r *= square.dtype.type(_ROOT5)
    result = r * r
    result /= square.dtype.type(3.0)
    result += r
    result += square.dtype.type(1.0)
    np.negative(r, out=r)
    result *= np.exp(r, out=r)
    return result


def _posterior(logs: np.ndarray, x: np.ndarray, y: np.ndarray, owner: np.ndarray) -> tuple[float, np.ndarray]:
    """Log posterior of the logarithms of lengths and noise, and its gradient; `owner` is each coordinate's tunable."""
    n, d = x.shape
    count = int(owner[-1]) + 1
    lengths, noise = np.exp(logs[:-1]), math.exp(logs[-1])
    apart = ((x[:, None, :] - x[None, :, :]) ** 2 / lengths**2).reshape(n * n, d)
    belongs = (owner[:, None] == np.arange(count)).astype(np.float64)
    single = apart @ belongs
    r, each = _ROOT5 * np.sqrt(single.sum(1)), _ROOT5 * np.sqrt(single)
    decay, each_decay = np.exp(-r), np.exp(-each)
    together = (1.0 + r + r * r / 3.0) * decay
    alone = ((1.0 + each + each * each / 3.0) * each_decay).sum(1)
    k = ((1.0 - ALONE) * together + ALONE / count * alone).reshape(n, n)
    try:
        factor = np.linalg.cholesky(k + (noise + 1e-8) * np.eye(n))
    except np.linalg.LinAlgError:
        return -math.inf, np.zeros(d + 1)
    inverse = np.linalg.inv(factor)
    inverse = inverse.T @ inverse
    alpha = inverse @ y
    slope = np.outer(alpha, alpha) - inverse
    value = -0.5 * float(y @ alpha) - float(np.log(np.diag(factor)).sum())
    steep = (ALONE / count) * (1.0 + each) * each_decay
    steep += ((1.0 - ALONE) * (1.0 + r) * decay)[:, None]
    steep *= slope.reshape(-1, 1)
    by_length = (5.0 / 6.0) * np.einsum("ik,ik->k", steep[:, owner], apart)
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
