"""PyTorch's own samples, the first half: values, dtypes, shapes, gradients, methods, in-place forms, out=, strides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.opinfo import checks


@pytest.mark.parametrize("info", checks.COUNTED[0::2], ids=lambda info: info.full_name)
def test_op(info: Any) -> None:
    checks.hold(info)
