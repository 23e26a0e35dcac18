"""The card of a cell while that runs: a thread sends its picture to where the card will stand.

It appears when the cell has run for a second, and follows at most twice a second and only what has changed. The thread
is gone when the cell has ended, however it ended; while it draws or sends, no process is forked, so that a child
inherits no lock of its.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
import weakref
from time import perf_counter, thread_time
from typing import Any

from widgets import run_card

from ..console import progress
from ..report.run_said import watched

FIRST_S, EVERY_S = 1.0, 0.5
SHARE = 0.01  # of the time that drawing may take
FORK_S = 1.0  # for which a fork waits for a picture

_drawing = threading.Lock()
_live: weakref.WeakSet[LiveCard] = weakref.WeakSet()


class LiveCard:
    """What is shown of one cell between `start` and `stop`. Without a kernel there is nothing to show.

    course : what the cell's loop goes through. files : the cell's files, with what to add to their line numbers.
    """

    def __init__(self, shell: Any, course: Any, files: dict[str, int], title: str = "") -> None:
        self.course, self.files, self.title = course, files, title
        self.id = uuid.uuid4().hex
        self.shown = False
        self.error: Exception | None = None
        self._publisher: Any = getattr(shell, "display_pub", None)
        self._shell = shell
        self._parent = getattr(self._publisher, "parent_header", None)
        self._can = getattr(shell, "kernel", None) is not None and hasattr(self._publisher, "pub_socket")
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._cleared = False
        self._cell = threading.get_ident()
        self._began = perf_counter()
        self._before: Any = None

    def start(self) -> None:
        """Begin to watch; nothing is shown yet."""
        if not self._can:
            return
        self._publisher.register_hook(self._hears)
        self._thread = threading.Thread(target=self._watch, name="gradlab live card", daemon=True)
        _live.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # where no thread can be had, nothing is shown before the end
            self._thread = None

    def stop(self) -> None:
        """End it; when this returns the thread has gone. Twice does nothing more."""
        self._end.set()
        thread, self._thread = self._thread, None
        if self._can:
            self._publisher.unregister_hook(self._hears)
        if thread is not None:
            thread.join()

    @property
    def place(self) -> dict[str, Any]:
        """What `publish_display_data` is given so that the whole card takes this one's place."""
        if not self.shown or self._cleared:
            return {}
        return {"transient": {"display_id": self.id}, "update": True}

    def _hears(self, message: Any) -> Any:
        """A message of the cell's own: where it clears its output our place goes with it."""
        if message.get("msg_type") == "clear_output":
            self._cleared = True
        return message

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        period = FIRST_S
        while not self._end.wait(period):
            begin = thread_time()
            try:
                with _drawing:
                    if not self._end.is_set():
                        self._draw()
            except Exception as error:  # told with the card
                self.error = error
                return
            period = max(EVERY_S, (thread_time() - begin) / SHARE)

    def _draw(self) -> None:
        if self._cleared or self._shell.display_pub is not self._publisher or progress.drew_since(self._began):
            return  # a cell that draws by itself, or whose output is caught, gets its card at the end
        course = self.course
        if not course:
            return
        state = course.steps, course.passes, sum(n.series.count for n in list(course.named.values()))
        if state == self._before:
            return
        self._before = state
        run = watched(course)
        html = run_card.live(run, perf_counter() - self._began, self.title or run_card.TITLE, self._doing())
        self._send({"text/html": html, "text/plain": f"{self.title}: {run_card.place(run)}"})

    def _doing(self) -> str:
        """Return the line of the cell that runs now."""
        frame = sys._current_frames().get(self._cell)
        while frame is not None:
            offset = self.files.get(frame.f_code.co_filename)
            if offset is not None:
                return f"line {frame.f_lineno + offset}"
            frame = frame.f_back
        return ""

    def _send(self, bundle: dict[str, str]) -> None:
        kind = "update_display_data" if self.shown else "display_data"
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": self.id}}
        session = self._publisher.session
        session.send(self._publisher.pub_socket, kind, content, parent=self._parent, ident=self._publisher.topic)
        self.shown = True


def _before_fork() -> None:
    global _held
    _held = bool(len(_live)) and _drawing.acquire(timeout=FORK_S)


def _after_fork() -> None:
    global _held
    if _held:
        _held = False
        _drawing.release()


def _in_child() -> None:
    global _drawing, _held
    _drawing, _held = threading.Lock(), False
    for live in list(_live):
        live._thread, live._can = None, False


_held = False
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
