"""Gaussian-process regression over the rows of a table, grown one observation at a time.

Matérn 5/2 with a length for each coordinate, of the distance in all tunables together and, to a fifth, of the distances
in each tunable alone: what a tunable does wherever the others stand is then learned from few observations. Lengths and
noise by maximum a posteriori.

The inverse of the covariance's factor and its product with the rows that may still be chosen are kept and extended, so
that another observation costs one row of the kernel and one pass over what is kept. Fitting makes another process, in
pieces (`gaussian_fit`); it keeps only the rows that promise most as observations become many.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 2.2, 4.2.1 and 5.4.1; Duvenaud,
Nickisch and Rasmussen, Additive Gaussian Processes (2011).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np

from .gaussian_fit import ALONE, ROOT5, Posterior, ascend, inverse_of

_ELEMENTS = 400_000  # of the product that fitting builds anew
_SCANNED = 1_000_000  # of the product that is gone through for the rows to keep
_PIECE = 32_768
_FITTED = 64  # observations that lengths are fitted to

_T = TypeVar("_T")
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
        self.kept = np.arange(len(codes))
        self._scale()
        self._select(self.kept)
        self._room(64)

    @classmethod
    def of(cls, codes: np.ndarray, coordinates: Sequence[np.ndarray], rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the mean at every row, from the values `y`, of mean 0 and deviation 1, at some."""
        process = cls(codes, coordinates)
        process.rows = [int(row) for row in rows]
        finish(process._lengthen(y))
        return finish(process._means(y, process._factor(), np.arange(len(codes))))[0]

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
        """Return a row for each value of each tunable, 1 where a row has it: with it a sum over tunables is a
        product."""
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
        square = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2.0 * (a @ b.T)
        together = matern(np.maximum(square, 0.0, out=square))
        alone = np.concatenate([m[self.codes[rows, k]] for k, m in enumerate(self._between)], 1)
        return (1.0 - ALONE) * together + ALONE / len(self._between) * (alone @ self._has(others))

    def _factor(self) -> np.ndarray:
        """Return the inverse of the lower factor of the covariance of those observed."""
        rows = np.array(self.rows, int)
        return inverse_of(np.linalg.cholesky(self._covariance(rows, rows) + self.noise * np.eye(len(rows))))

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

    def fitted(
        self, y: np.ndarray, expected: np.ndarray | None = None, also: Sequence[int] | np.ndarray = ()
    ) -> Generator[float, None, Process]:
        """Another process with lengths and noise fitted to the values `y` of those observed so far.

        Where that would take long for all rows, it keeps those that promise most, and these `also`. expected : what `y`
        is relative to at every row, where that is not 0.
        """
        new = copy.copy(self)
        new.rows = self.rows[: len(y)]
        yield from new._lengthen(y)
        n = len(y)
        yield 300.0 + 3e-5 * n**3 + 0.02 * n**2
        factor = new._factor()
        most = max(_ELEMENTS // n, 500)
        if len(new.codes) == len(new.kept) <= most:
            yield 0.08 * len(new.kept)
            points = new._points(new.kept)
            new._sides = points, (points**2).sum(1), new._sides[2]
        else:
            kept = yield from new._promising(y, factor, expected, most)
            yield 0.2 * len(kept)
            new._select(np.union1d(kept, np.asarray(also, int)))
        yield from new._again(factor)
        return new

    def _lengthen(self, y: np.ndarray) -> Generator[float, None, None]:
        """Fit lengths and noise, to no more observations than that takes milliseconds."""
        some = np.arange(len(y))
        if len(some) > _FITTED:  # half the best, half at random
            order = np.argsort(y)
            rest = np.random.default_rng(len(y)).permutation(order[_FITTED // 2 :])
            some = np.concatenate([order[: _FITTED // 2], rest[: _FITTED // 2]])
        logs = np.log(np.append(self.lengths, self.noise))
        logs, _ = yield from ascend(self._posterior(y, some), logs, 25 if len(y) < 32 else 10)
        self.lengths, self.noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        self._scale()

    def _posterior(self, y: np.ndarray, some: np.ndarray) -> Posterior:
        rows = np.array(self.rows, int)[some]
        x = np.concatenate([c[self.codes[rows, k]] for k, c in enumerate(self.coordinates)], 1)
        return Posterior(x, y[some], self.owner)

    def _first(self) -> np.ndarray:
        """Return the lengths before any are fitted."""
        return np.full(len(self.owner), 0.6 * math.sqrt(max(len(self.owner), 1) / 3.0))

    def _promising(
        self, y: np.ndarray, factor: np.ndarray, expected: np.ndarray | None, most: int
    ) -> Generator[float, None, np.ndarray]:
        """Yield the rows with the largest expected improvement, as if the nearest observation alone told of
        deviations."""
        rows, some = np.array(self.rows, int), np.arange(len(self.codes))
        if len(some) * len(rows) > _SCANNED:  # those kept, and others at random
            rng = np.random.default_rng(len(rows))
            some = np.union1d(self.kept, rng.integers(len(some), size=max(_SCANNED // len(rows), most)))
        mean, near = yield from self._means(y, factor, some)
        yield 0.06 * len(some)
        deviation = np.sqrt(np.maximum(1.0 - near**2, 1e-4))
        lowest = np.float32(y.min())
        if expected is not None:
            mean += expected[some]
            lowest = np.float32((y + expected[rows]).min())
        z = (lowest - mean) / deviation
        # of the expected improvement's logarithm what orders rows: both grow with z and with the deviation
        score = np.where(z > 0, z, -0.5 * z * z) + np.log(deviation)
        return some[np.argpartition(-score, most)[:most]] if len(some) > most else some

    def _means(
        self, y: np.ndarray, factor: np.ndarray, others: np.ndarray
    ) -> Generator[float, None, tuple[np.ndarray, np.ndarray]]:
        """Yield the mean at these others, and the covariance with the observation nearest to each."""
        rows = np.array(self.rows, int)
        weights = (factor.T @ (factor @ y)).astype(np.float32)
        mean, near = np.empty((2, len(others)), np.float32)
        for at in range(0, len(others), 4096):
            part = others[at : at + 4096]
            yield 0.01 * len(part) * len(rows) + 0.15 * len(part)
            kernel = self._kernel(rows, self._side(part))
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

    def _again(self, factor: np.ndarray) -> Generator[float, None, None]:
        rows, n = np.array(self.rows, int), len(self.rows)
        yield 0.1 * len(self.kept)
        self._room(max(2 * n, 64))
        self._inverse[:n, :n], single = factor, factor.astype(np.float32)
        points, norms, has = self._sides
        step = max(100_000 // max(n, 1), 256)
        for at in range(0, len(self.kept), step):
            part = slice(at, at + step)
            yield 0.01 * n * min(step, len(self.kept) - at)
            self._cross[:n, part] = single @ self._kernel(rows, (points[part], norms[part], has[:, part]))
            self._variance[part] -= np.einsum("ij,ij->j", self._cross[:n, part], self._cross[:n, part])


def finish(steps: Generator[float, None, _T]) -> _T:
    """Do all pieces at once."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


def matern(square: np.ndarray) -> np.ndarray:
    """Matérn 5/2 of squared distances."""
    r = np.sqrt(square)
    r *= square.dtype.type(ROOT5)
    result = r * r
    result /= square.dtype.type(3.0)
    result += r
    result += square.dtype.type(1.0)
    np.negative(r, out=r)
    result *= np.exp(r, out=r)
    return result
