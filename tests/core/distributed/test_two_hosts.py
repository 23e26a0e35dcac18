"""Ranks on two network namespaces, as on two hosts."""

from __future__ import annotations

import os
import subprocess

import pytest

from . import failures, jobs, two_hosts


def _refused() -> str:
    """Return why there can be no network namespaces, "" where there can."""
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    try:
        made = subprocess.run(["ip", "netns", "add", "tried"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no program ip"
    subprocess.run(["ip", "netns", "del", "tried"], capture_output=True, check=False)
    return made.stderr.strip()


@jobs.needs_mpi
@pytest.mark.skipif(bool(_refused()), reason=f"network namespaces: {_refused()}")
def test_a_failure_on_another_host_is_told_and_the_job_ends_with_the_same_loss():
    with two_hosts.TwoHosts(delay_ms=1.0, loss=0.01) as hosts:
        case, loss = two_hosts.play(hosts, failures.Case("raise", 4, 3, 5, "restarts"))
    assert case.wrong == [], case.said
    assert float(loss) == pytest.approx(failures.undisturbed(), abs=1e-6)
