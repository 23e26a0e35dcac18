"""What a card's button asks the kernel for."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from lab.notebook import card_buttons, panel

COMMAND = "%tune core_matmul 64x64x64 float32"


def test_a_second_press_while_the_first_is_understood_begins_no_second_run(monkeypatch: Any) -> None:
    begun: list[Any] = []

    def made(_: Any, problem: Any) -> Any:
        time.sleep(0.3)  # as long as making a space may take
        return SimpleNamespace(result=None, error=None, session=SimpleNamespace(problem=problem))

    def show(run: Any, parent: Any) -> None:
        begun.append(run)
        monkeypatch.setattr(panel, "latest", run)

    monkeypatch.setattr(panel, "latest", None)
    monkeypatch.setattr(panel, "made", made)
    monkeypatch.setattr(panel, "show", show)
    said: list[str] = []
    presses = [
        threading.Thread(target=lambda: said.append(card_buttons.obey(COMMAND, {}, "")["said"])) for _ in range(3)
    ]
    for press in presses:
        press.start()
    for press in presses:
        press.join()
    assert len(begun) == 1
    assert sorted(said) == ["It is being tuned already."] * 2 + ["The tuner's panel is below this card."]


@pytest.mark.parametrize(
    "command",
    [
        "print('hello')",
        "%run file.py",
        "%tune",
        "!ls",
        "try",
        "try x",
        "try 1; ls",
        "try -1",
        "try 1 2",
        "try ١",
        "try 0\n",
    ],
)
def test_a_button_can_ask_for_nothing_but_tune_and_try(command: str) -> None:
    with pytest.raises(ValueError, match="%tune and try alone"):
        card_buttons.obey(command, {}, "")
