"""Where progress is shown: one output of a notebook updated in place, one line of a terminal, or lines in a log.

`progress(iterable)` is a bar by itself; `Screen` is what it and `lab.fit` draw on. Both draw at most five times a
second, and spend at most a thirtieth of the time on it.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator, Sized
from time import perf_counter
from typing import Any

from core.base import source
from widgets import training
from widgets.training import Training, seconds_text

source.ours[__file__] = True  # for what is recorded, the user's line is the one that loops over it

EVERY_S = 0.2
SHARE = 30
"""After drawing for a second, this many seconds pass before it draws again."""
WAYS = ("notebook", "terminal", "lines", "off")


_drew = 0.0  # when a plot was drawn last in a notebook


def drew_since(moment: float) -> bool:
    """Return whether `lab.fit` has drawn its plot in a notebook since a moment of `perf_counter`."""
    return _drew > moment


def way_here() -> str:
    """How progress is shown here: "notebook" under a Jupyter kernel, "terminal" or "lines" by what stdout is."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return "notebook"
    return "terminal" if sys.stdout is not None and sys.stdout.isatty() else "lines"


def _note_drawn(moment: float) -> None:
    global _drew
    _drew = moment


class Screen:
    """Draws a view now and then; `due` says whether it is time.

    show : True for what fits here, False for nothing, or one of "notebook", "terminal", "lines", "off".
    """

    def __init__(self, show: bool | str = True) -> None:
        self.way = way_here() if show is True else "off" if not show else str(show)
        if self.way not in WAYS:
            raise ValueError(f"show={show!r} is not known; needed: True, False or one of {', '.join(WAYS)}")
        self.next = perf_counter() + (0.05 if self.way == "notebook" else EVERY_S)
        if self.way in ("lines", "off"):
            self.next = float("inf")
        self._id = ""
        self._open = False  # whether a terminal's line is unfinished

    def due(self) -> bool:
        """Return whether enough time has passed since it drew last."""
        return perf_counter() >= self.next

    def draw(self, view: Training, final: bool = False) -> None:
        """Show a view in the place of the one before."""
        start = perf_counter()
        if self.way == "notebook":
            if len(view.losses):
                _note_drawn(start)
            self._publish({"text/html": training.html(view, final), "text/plain": training.text(view)})
        elif self.way == "terminal":
            self._write(training.line(view, shutil.get_terminal_size().columns - 1), final)
        elif self.way == "lines" and final:
            print(training.line(view, 1000), flush=True)
        if self.next != float("inf"):
            now = perf_counter()
            self.next = now + max(EVERY_S, SHARE * (now - start))

    def say(self, words: str) -> None:
        """A line that stays, where there is no plot: a terminal or a log."""
        if self.way == "terminal":
            self._write(words, True)
        elif self.way == "lines":
            print(words, flush=True)

    def _write(self, words: str, stays: bool) -> None:
        sys.stdout.write(f"\r{words}\x1b[K" + ("\n" if stays else ""))
        sys.stdout.flush()

    def _publish(self, bundle: dict[str, str]) -> None:
        from IPython import display

        publish: Any = display.publish_display_data
        update = bool(self._id)
        self._id = self._id or uuid.uuid4().hex
        publish(bundle, transient={"display_id": self._id}, update=update)


class Progress:
    """What `progress` returns: iterate over it; `show(loss=...)` puts figures beside the bar."""

    def __init__(self, iterable: Iterable[Any], total: int | None, title: str, unit: str, show: bool | str) -> None:
        self.iterable, self.title, self.unit, self.way = iterable, title, unit, show
        self.total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self.count = 0
        self.figures: dict[str, Any] = {}
        self._began = perf_counter()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the length of this progress is not known; needed: total=...")
        return self.total

    def show(self, **figures: Any) -> None:
        """Figures beside the bar, from now on: numbers, texts, or tensors of one element."""
        self.figures.update(figures)

    def __iter__(self) -> Iterator[Any]:
        screen = Screen(self.way)
        self.count, self._began = 0, perf_counter()
        state = "stopped"
        try:
            for item in self.iterable:
                yield item
                self.count += 1
                if perf_counter() >= screen.next:
                    screen.draw(self.view("running"))
            state = "done"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        except GeneratorExit:  # the loop was left: by break, or by an error in its body
            raise
        except BaseException:
            state = "failed"
            raise
        finally:
            screen.draw(self.view(state), final=True)

    def view(self, state: str) -> Training:
        """This moment as plain data."""
        spent = perf_counter() - self._began
        rate = self.count / spent if spent > 0 else 0.0
        known = self.total is not None and self.count <= self.total
        place = f"{self.count:,} of {self.total:,} {self.unit}" if known else f"{self.count:,} {self.unit}"
        words = {"done": "Done", "running": "Progress"}
        return Training(
            title=self.title or words.get(state, ""), state=state, place=place,
            done=(self.count / self.total if self.total else 1.0) if known else None,  # type: ignore[operator]
            timing=timing(rate, self.unit, spent, (self.total - self.count) / rate if known and rate else None,  # type: ignore[operator]
                          state == "running"),
            figures=[(name, figure(value)) for name, value in self.figures.items()],
        )  # fmt: skip


def figure(value: Any) -> str:
    """Return a figure as text: a number in four digits, another thing as it is.

    >>> figure(3), figure(0.12345), figure("x")
    ('3', '0.1235', 'x')
    """
    array = getattr(value, "_a", None)  # a tensor: read without an event that a recording would hear
    if array is not None:
        value = float(array) if value.numel() == 1 else f"a tensor of {tuple(value.shape)}"
    return training.loss_text(value) if isinstance(value, float) else str(value)


def timing(rate: float, unit: str, spent: float, left: float | None, running: bool) -> str:
    """Speed, and what is left of the time or has been spent.

    >>> timing(312.4, "steps", 4.0, 12.2, True), timing(312.4, "steps", 4.0, None, False)
    ('312 steps/s · 12 s left', '312 steps/s · 4.0 s')
    """
    speed = f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"
    parts = [f"{speed} {unit}/s"] if rate else []
    if running and left is not None:
        parts.append(f"{seconds_text(left)} left")
    elif not running:
        parts.append(seconds_text(spent))
    return " · ".join(parts)


def progress(iterable: Iterable[Any], total: int | None = None, title: str = "", *, unit: str = "steps",
             show: bool | str = True) -> Progress:  # fmt: skip
    """Return a bar over any iterable: ``for batch in lab.progress(loader)``.

    total : how many there are, where the iterable has no length. title : before the bar. show : False hides it;
    "notebook", "terminal" or "lines" choose the way, which otherwise fits the place. Figures of the loop are shown by
    ``bar = lab.progress(loader)`` and ``bar.show(loss=loss)``.

    >>> bar = progress(range(3), title="Counting", show="off")
    >>> for k in bar:
    ...     bar.show(k=k)
    >>> bar.view("done").place, bar.view("done").figures
    ('3 of 3 steps', [('k', '2')])
    """
    return Progress(iterable, total, title, unit, show)
