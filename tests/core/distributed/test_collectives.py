"""Collectives, messages and groups on four ranks and on three."""

from __future__ import annotations

import functools

import pytest

from . import jobs

CHECKS = "tests.core.distributed.checks_collectives"
pytestmark = jobs.needs_mpi
results = functools.cache(jobs.results)


@pytest.mark.parametrize("n", [4, 3])
@pytest.mark.parametrize("name", jobs.checks(CHECKS))
def test_on_ranks(name, n):
    assert results(CHECKS, n)[name] == [""] * n
