"""Failures injected into the recorder: a thinned sample of what ``python -m tests.lab.recorder.injected 500`` runs."""

from __future__ import annotations

from typing import Any

import pytest

from lab.recorder.observer import Recorder
from tests.lab.recorder import injected


@pytest.mark.by_turns
def test_no_failure_of_the_recorder_is_noticed_by_a_cell() -> None:
    failed, noticed = injected.run("core", 60)
    assert noticed == []
    assert failed > 50


@pytest.mark.by_turns
def test_no_failure_of_the_recorder_is_noticed_by_a_cell_of_a_shell() -> None:
    failed, noticed = injected.run("core", 40, shell=True)
    assert noticed == []
    assert failed > 30


def test_a_failure_that_got_out_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unguarded(listeners: Any, what: str, *given: Any) -> None:
        for o in listeners:
            getattr(o, what)(*given)

    monkeypatch.setattr("core.events.observe.notify", unguarded)
    monkeypatch.setattr(Recorder, "exit_module", lambda self, module: 1 / 0)
    plain = injected.outcome(injected.CELLS["training"], "core", None)
    assert injected.outcome(injected.CELLS["training"], "core", injected.Injector()) != plain
