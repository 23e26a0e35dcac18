"""Observers that keep a histogram, and choose from it a range narrower than from the least to the greatest value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import text
from ...base.qschemes import per_tensor_affine
from ...base.source import warn
from ...ops.creation import from_numpy, tensor, zeros
from ...tensors.tensor import Tensor
from .observer import UniformQuantizationObserverBase

__all__ = ["HistogramObserver", "PercentileObserver"]

_FINER = 16  # bins that one bin is divided into when a histogram is brought to a wider range


class HistogramObserver(UniformQuantizationObserverBase):
    """Watches a histogram of all that passes, and takes the range with the least squared error of rounding.

    The range is narrowed from the side where the tail of 1e-5 of the values is longer, as long as the error falls;
    within a bin values count as evenly spread.

    >>> import core
    >>> observer = core.ao.quantization.HistogramObserver()
    >>> _ = observer(core.cat([core.linspace(-1, 1, 10000), core.tensor([50.0])]))
    >>> wide = core.ao.quantization.MinMaxObserver()(core.tensor([-1.0, 50.0])).aminmax()
    >>> observer.calculate_qparams()[0].item() < 51 / 255
    True
    """

    histogram: Tensor

    def __init__(self, bins: int = 2048, dtype: Any = dtypes.quint8, qscheme: Any = per_tensor_affine,
                 reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
                 factory_kwargs: Any = None, eps: float = 1.1920928955078125e-07,
                 is_dynamic: bool = False) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError(text("HistogramObserver doesn't support dynamic quantization",
                                           op="HistogramObserver", remedy="MinMaxObserver"))  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps)
        self.bins = bins
        self.register_buffer("histogram", zeros(bins))
        self.dst_nbins = 16 if dtype.name == "quint4x2" else 2 ** (8 * dtype.itemsize)

    # -- watching ------------------------------------------------------------------------------------------------------

    def forward(self, x_orig: Any) -> Any:
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().float()
        finite = x.abs() != float("inf")
        if not bool(finite.all()):
            warn("torch.inf detected in input tensor, ignoring input")
            x = x[finite]
            if not x.numel():
                return x_orig
        low, high = (float(v) for v in x.aminmax())
        if not self.seen():
            new = self._counted(x, low, high)
        else:
            before = float(self.min_val), float(self.max_val)  # type: ignore[arg-type]
            low, high = min(low, before[0]), max(high, before[1])
            new = self._counted(x, low, high) + self._moved(*before, low, high)
        device = self.histogram.device
        self.histogram = from_numpy(new.astype(np.float32)).to(device)
        self.min_val, self.max_val = tensor(low, device=device), tensor(high, device=device)
        return x_orig

    def _counted(self, x: Any, low: float, high: float) -> np.ndarray[Any, Any]:
        if low == high:  # as torch.histc has it: a range of one around the value
            low, high = low - 1, high + 1
        return x.histc(self.bins, min=low, max=high).cpu().numpy()  # type: ignore[no-any-return]

    def _moved(self, low: float, high: float, new_low: float, new_high: float) -> np.ndarray[Any, Any]:
        """Return the histogram so far as one over a wider range: the middles of sixteenths of bins fall into its
        bins."""
        counts: Any = self.histogram.cpu().numpy()  # type: ignore[attr-defined]
        if (low, high) == (new_low, new_high):
            return counts  # type: ignore[no-any-return]
        if low == high:
            return self._counted(tensor([low]), new_low, new_high) * counts.sum()  # type: ignore[no-any-return]
        n = self.bins * _FINER
        middles = np.linspace(low, high, n + 1, dtype=np.float32)[:-1] + np.float32(0.5 * (high - low) / n)
        edges = np.linspace(new_low, new_high, self.bins + 1, dtype=np.float32)
        place = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, self.bins - 1)
        return np.bincount(place, weights=np.repeat(counts, _FINER) / _FINER, minlength=self.bins)

    # -- choosing ------------------------------------------------------------------------------------------------------

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return the scale and the zero point for the range with the least error."""
        if not self.seen():
            return super().calculate_qparams()
        low, high = self._range_of(self.histogram.cpu().numpy().astype(np.float64))  # type: ignore[attr-defined]
        return self._calculate_qparams(tensor(low), tensor(high))

    def _at(self, first: int, last: int) -> tuple[float, float]:
        """Return the values at the beginning of one bin and at the end of another."""
        low = float(self.min_val)  # type: ignore[arg-type]
        width = (float(self.max_val) - low) / self.bins  # type: ignore[arg-type]
        return low + width * first, low + width * (last + 1)

    def _range_of(self, counts: np.ndarray[Any, Any]) -> tuple[float, float]:
        total, cumulated = counts.sum(), np.cumsum(counts)
        first, last, step, below, above, least = 0, self.bins - 1, 1e-5, 0.0, 1.0, float("inf")
        while below < above:
            left = max(first, min(last, int(np.searchsorted(cumulated, (below + step) * total))))
            right = min(last, max(first, int(np.searchsorted(cumulated, (above - step) * total, side="right")) - 1))
            if left - first > last - right:
                new, below = (left, last), below + step
            else:
                new, above = (first, right), above - step
            if new == (first, last):
                continue
            error = self._error(counts, *new)
            if error > least:
                break
            least, (first, last) = error, new
        return self._at(first, last)

    def _error(self, counts: np.ndarray[Any, Any], first: int, last: int) -> float:
        """Return the squared error of rounding to steps from the beginning of a bin to the end of another."""
        width = (float(self.max_val) - float(self.min_val)) / self.bins  # type: ignore[arg-type]
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0:
            return 0.0
        begin = (np.arange(self.bins) - first) * width
        end, half = begin + width, step / 2
        of_begin, of_end = (np.clip(np.floor(v / step), 0, self.dst_nbins - 1) for v in (begin, end))

        def between(a: Any, b: Any) -> Any:  # the integral of the squared distance from a step's middle
            return (b * b * b - a * a * a) / 3

        spread = between(begin - (of_begin + 0.5) * step, half) + (of_end - of_begin - 1) * between(-half, half)
        spread = spread + between(-half, end - (of_end * step + half))
        return float((spread * counts / width).sum())


class PercentileObserver(HistogramObserver):
    """Watches a histogram, and takes the range that leaves out a share of the values at either end.

    percentile : of the values how many per cent are to lie below the range's end, and as many above its beginning.

    >>> import core
    >>> observer = core.ao.quantization.PercentileObserver(percentile=99.0)
    >>> _ = observer(core.linspace(0, 100, 10001))
    >>> round(observer.calculate_qparams()[0].item() * 255)
    99
    """

    def __init__(self, percentile: float = 99.99, **kwargs: Any) -> None:
        if not 50 < percentile <= 100:
            raise ValueError(text("percentile must be above 50 and at most 100", op="PercentileObserver",
                                  came=f"{percentile}"))  # fmt: skip
        super().__init__(**kwargs)
        self.percentile = percentile

    def _range_of(self, counts: np.ndarray[Any, Any]) -> tuple[float, float]:
        cumulated, outside = np.cumsum(counts), (1 - self.percentile / 100) * counts.sum()
        first = int(np.searchsorted(cumulated, outside, side="right"))
        last = int(np.searchsorted(cumulated, counts.sum() - outside))
        return self._at(min(first, self.bins - 1), min(max(first, last), self.bins - 1))
