"""The tuner's panel in a notebook: a session in a thread of its own, drawn live, and a result that stays.

`%tune` shows it and gives the prompt back: other cells run while it measures. Pause, Stop and Use arrive on a thread of
the kernel's own (a subshell), so that they act while a cell runs. When the session has ended, the output is replaced by
self-contained HTML, which needs neither widget nor kernel.
"""

from __future__ import annotations

import argparse
import threading
import uuid
from collections.abc import Callable
from typing import Any

from triton_kernels.tune import events as ev
from triton_kernels.tune.problem import Problem
from triton_kernels.tune.session import Session
from triton_kernels.tune.store import Store
from widgets import tuner
from widgets.assets import bundle
from widgets.tuner import Tuning

from ..tuning import command
from ..tuning.session_view import begin, take
from . import card_buttons

EVERY_S = 0.2


class Run:
    """A session that runs beside the notebook. `result` is None until it has ended; `wait` waits for it."""

    def __init__(self, session: Session, store: Store | None = None) -> None:
        self.session = session
        self.result: ev.Result | None = None
        self.error: BaseException | None = None
        self.view = begin(session)
        self._store = store
        self._dirty = threading.Event()
        self._listeners: list[Callable[[Tuning], None]] = []
        self._thread = threading.Thread(target=self._run, name="gradlab tuner", daemon=True)
        self._painter = threading.Thread(target=self._paint, name="gradlab tuner's panel", daemon=True)

    def start(self, listener: Callable[[Tuning], None] | None = None) -> None:
        """Begin; `listener` gets the view, a few times a second, and once more at the end."""
        self._listeners += [listener] if listener else []
        self._thread.start()
        self._painter.start()

    def wait(self, timeout: float | None = None) -> ev.Result | None:
        """Wait for the end, at most `timeout` seconds. *Raises*: what the session raised."""
        if self._painter.ident is not None:  # else it was run to its end in the foreground
            self._painter.join(timeout)
        if self.error is not None:
            raise self.error
        return self.result

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    # -- what a person does --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the search; the final follows, which a second call ends too."""
        if self.result is None:
            self.session.stop()
            self._state("stopping")

    def pause(self) -> None:
        """Begin no further config until `go_on`."""
        if self.result is None and self.view.state == "running":
            self.session.pause()
            self._state("paused")

    def go_on(self) -> None:
        """End a pause."""
        self.session.go_on()
        if self.view.state == "paused":
            self._state("running")

    # -- the threads ---------------------------------------------------------------------------------------------------

    def _state(self, state: str) -> None:
        self.view.state = state
        self._dirty.set()

    def _run(self) -> None:
        try:
            for event in self.session:
                take(self.view, self.session, event)
                self._dirty.set()
        except BaseException as error:
            self.error = error
            self.view.state, self.view.verdict = "failed", [f"{type(error).__name__}: {error}"]
        finally:
            self.close()
        self.result = self.session.result
        self._dirty.set()

    def _paint(self) -> None:
        while self._thread.is_alive():
            if self._dirty.wait(EVERY_S):
                self._dirty.clear()
                self._tell()
            # the trials are sent as a whole: of many the less often
            self._thread.join(max(EVERY_S, len(self.view.trials) / 2000))
        self._tell()

    def _tell(self) -> None:
        self.view.spent_s = self.session.spent_s if self.result is None else self.result.seconds
        for listener in self._listeners:
            listener(self.view)


# -- in a notebook -----------------------------------------------------------------------------------------------------

latest: Run | None = None
"""The run that was shown last: ``lab.notebook.panel.latest.wait()`` gives its result."""


def made(options: argparse.Namespace, problem: Problem) -> Run:
    """Return the run that a command asks for, with a store of its own."""
    store = Store()
    return Run(command.session_of(options, problem, store), store)


def busy_with(problem: Problem) -> bool:
    """Return whether the run that was shown last is at this problem."""
    run = latest
    return run is not None and run.result is None and run.error is None and run.session.problem.key == problem.key


def show(run: Run, parent: dict[str, Any] | None = None) -> None:
    """Show a run live in this cell's output, or in that of the cell whose message `parent` is, and start it."""
    global latest
    from IPython import display, get_ipython

    publish: Any = display.publish_display_data
    if parent is not None:
        get_ipython().display_pub.set_thread_parent(parent)
    latest = run
    place = card_buttons.place() if parent is None else ""
    panel = _widget()(run)
    name = uuid.uuid4().hex
    bundle = {**panel._repr_mimebundle_()[0], "text/plain": tuner.text(run.view), "text/html": tuner.html(run.view)}
    publish(bundle, transient={"display_id": name})
    card_buttons.connect()

    def end() -> None:
        kept = {"text/html": tuner.html(run.view, place), "text/plain": tuner.text(run.view)}
        publish(kept, transient={"display_id": name}, update=True)

    panel.at_end = end
    run.start(panel.draw)


def show_or_wait(run: Run, wait: bool = False) -> None:
    """Show a run where a person has the notebook open; elsewhere run it to its end, as text."""
    if card_buttons.message_of_cell() is None:
        show_text(run)
        return
    show(run)
    while wait:
        try:
            run.wait()
            return
        except KeyboardInterrupt:
            run.stop()


def show_text(run: Run) -> None:
    """Run to the end where nobody can press a button: progress as lines, then what stays of the panel.

    A notebook that a program executes (nbconvert) and a console have outputs, and no widgets.
    """
    global latest
    from IPython import display

    publish: Any = display.publish_display_data
    latest = run
    try:
        command.watch(run.session, show="lines", heard=lambda event: take(run.view, run.session, event))
    finally:
        run.close()
        run.result = run.session.result
    assert run.result is not None
    publish({"text/html": tuner.html(run.view), "text/plain": command.describe(run.result)})


def _widget() -> Any:
    import anywidget
    import traitlets

    class Panel(anywidget.AnyWidget):  # type: ignore[misc]
        """The live panel: `head` is all but the trials, which are sent only as they grow."""

        _esm = tuner.module()
        head: Any = traitlets.Dict().tag(sync=True)
        trials: Any = traitlets.List().tag(sync=True)

        def __init__(self, run: Run) -> None:
            super().__init__(**_split(run.view))
            self._run = run
            self.at_end: Callable[[], None] = lambda: None
            card_buttons.on_this_subshell(self)
            self.on_msg(self._act)

        def _act(self, _: Any, content: Any, buffers: Any) -> None:
            acts = {"stop": self._run.stop, "pause": self._run.pause, "resume": self._run.go_on}
            what = content.get("act") if isinstance(content, dict) else None
            if what in acts:
                acts[what]()

        def draw(self, view: Tuning) -> None:
            ended = self._run.result is not None or self._run.error is not None
            state = _split(view)
            with self.hold_sync():
                self.trials = state["trials"]
                self.head = state["head"]
            if ended:
                self.at_end()

    return Panel


def _split(view: Tuning) -> dict[str, Any]:
    data = tuner.payload(view)
    trials = data.pop("trials")
    return {"head": {**data, "css": bundle("tuner.css")}, "trials": trials}
