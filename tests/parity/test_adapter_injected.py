"""Failures injected into the recorder and PyTorch's adapter: some of `python -m tests.lab.recorder.injected`."""

from __future__ import annotations

from tests.lab.recorder import injected


def test_no_failure_of_the_recorder_is_noticed_by_a_pytorch_cell() -> None:
    failed, noticed = injected.run("torch", 60)
    assert noticed == []
    assert failed > 50


def test_each_function_of_the_adapter_can_fail_at_its_first_call() -> None:
    failed, noticed = injected.run("torch", 400, within="lab.adapters")
    assert noticed == []
    assert failed > 300


def test_no_failure_of_the_recorder_is_noticed_by_a_pytorch_cell_of_a_shell() -> None:
    failed, noticed = injected.run("torch", 40, shell=True)
    assert noticed == []
    assert failed > 30
