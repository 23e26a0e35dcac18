"""These tests interpret the kernels: Triton fixes its mode at its first import, so the variable is set here."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest


@pytest.fixture(autouse=True)
def as_it_was() -> None:
    """The kernels lie below core: these tests neither import it nor leave anything behind in it."""
