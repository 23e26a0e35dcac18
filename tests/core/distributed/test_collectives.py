"""Collectives, messages, groups and gradients on four ranks and on three."""

from __future__ import annotations

import functools

import pytest

from . import jobs

FILES = ("collectives", "gradients", "engine")
pytestmark = jobs.needs_mpi
results = functools.cache(jobs.results)


@pytest.mark.parametrize("n", [4, 3])
@pytest.mark.parametrize(("file", "name"), [(f, name) for f in FILES
                                            for name in jobs.checks(f"tests.core.distributed.checks_{f}")])  # fmt: skip
def test_on_ranks(file, name, n):
    assert results(f"tests.core.distributed.checks_{file}", n)[name] == [""] * n


@pytest.mark.parametrize("name", jobs.checks("tests.core.distributed.checks_collectives"))
def test_on_ranks_that_compare_first(name):
    found = results("tests.core.distributed.checks_collectives", 4, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert found[name] == [""] * 4
