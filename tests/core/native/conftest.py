"""The C extension, and one thread or two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core import native

from .called import Extension


@pytest.fixture(scope="session")
def kernels() -> Any:
    """The extension; a machine without it fails these tests, in words."""
    assert native.module is not None, native.reason
    return Extension(native.module)


@pytest.fixture(autouse=True)
def threads_as_before(kernels: Any) -> Iterator[None]:
    """A test may change the number of threads."""
    before = kernels.get_num_threads()
    yield
    kernels.set_num_threads(before)
