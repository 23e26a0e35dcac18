"""A process that dies: its other tests run elsewhere, the one that it died in does not run again."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections import OrderedDict

import pytest

pytest.importorskip("xdist")


class Process:
    shutting_down = False

    def __init__(self):
        self.sent = []

    def send_runtest_some(self, numbers):
        self.sent.append(numbers)


def test_what_a_process_left():
    from .dealing import Files

    other = Process()
    files = Files.__new__(Files)
    files.log = lambda *said: None
    files.workqueue = OrderedDict()
    files.assigned_work = {
        "dead": {"a": {"a::1": True, "a::2": False, "a::3": False}, "b": {"b::1": False}},
        other: {"c": {"c::1": True}},
    }
    files.registered_collections = {other: ["a::1", "a::2", "a::3", "b::1", "c::1"]}
    assert files.remove_node("dead") == "a::2"
    assert other.sent == [[2]]
    assert list(files.workqueue) == ["b"]
    files.assigned_work["idle"] = {"d": {"d::1": True}}
    assert files.remove_node("idle") is None
