"""Options of the parity tests."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """`--programs 5000`: that many generated programs, other ones in each run."""
    parser.addoption(
        "--programs", type=int, default=0, help="how many generated programs (default 100, always the same)"
    )
