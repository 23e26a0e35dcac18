"""Failures injected into the recorder: a thinned sample of what ``python -m tests.lab.injected 500`` runs."""

from __future__ import annotations

import pytest

from lab.recorder import Recorder
from tests.lab import injected


def test_no_failure_of_the_recorder_is_noticed_by_a_cell() -> None:
    failed, noticed = injected.run("core", 60)
    assert noticed == []
    assert failed > 50


def test_a_failure_that_got_out_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "core.observe.announce", lambda listeners, what, *given: [getattr(o, what)(*given) for o in listeners]
    )
    monkeypatch.setattr(Recorder, "exit_module", lambda self, module: 1 / 0)
    plain = injected.outcome(injected.CELLS["training"], "core", None)
    assert injected.outcome(injected.CELLS["training"], "core", injected.Injector()) != plain
