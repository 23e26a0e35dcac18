"""The tuner's panel in a notebook: a session in a thread of its own, drawn live, and a result that stays.

`%tune` shows it and gives the prompt back: other cells run while it measures. Pause, Stop and Use arrive on a thread of
the kernel's own (a subshell), so that they act while a cell runs. When the session has ended, the output is replaced by
self-contained HTML, which needs neither widget nor kernel.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable
from typing import Any

from triton_kernels.tune import events as ev
from triton_kernels.tune.session import Session
from triton_kernels.tune.space import Config, Space
from triton_kernels.tune.store import Store
from widgets import tuner
from widgets.card import sheet
from widgets.tuner import Tuning

EVERY_S = 0.2
_MOST_VALUES = 64
_SPARE = ("estimate_ms", "bytes")  # facts that say nothing to a person
_MOST_ASKED = 2000  # configs, for the bound


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
        self._painter.join(timeout)
        if self.error is not None:
            raise self.error
        return self.result

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
            self.view.state, self.view.notes = "failed", [*self.view.notes, f"{type(error).__name__}: {error}"]
        finally:
            if self._store is not None:
                self._store.close()
        self.result = self.session.result
        self._dirty.set()

    def _paint(self) -> None:
        while self._thread.is_alive():
            if self._dirty.wait(EVERY_S):
                self._dirty.clear()
                self._tell()
            self._thread.join(EVERY_S)
        self._tell()

    def _tell(self) -> None:
        self.view.spent_s = self.session.spent_s if self.result is None else self.result.seconds
        for listener in self._listeners:
            listener(self.view)


# -- from events to the view -------------------------------------------------------------------------------------------


def begin(session: Session) -> Tuning:
    """The view of a session that has not begun."""
    problem = session.problem
    space = problem.space
    tunables = [(t.name, [str(v) for v in t.values], t.values.index(t.default)) for t in space.tunables]
    shape = "x".join(map(str, problem.shape))
    title = " ".join(part for part in (problem.kernel, shape, problem.dtype) if part)
    return Tuning(title, problem.device, budget_s=session.budget_s, size=len(session.table), tunables=tunables,
                  estimate=problem.measure.estimate, never=never(space, session), bound=bound(problem))  # fmt: skip


def never(space: Space, session: Session) -> dict[str, list[tuple[int, int, str]]]:
    """For each two tunables the pairs of values that no config has, with the limit that forbids them."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    codes, tunables = session.table.codes, space.tunables
    if not session.table.complete or max(len(t.values) for t in tunables) > _MOST_VALUES:
        return found
    default = space.default
    for i in range(len(tunables)):
        for j in range(i + 1, len(tunables)):
            there = set(zip(codes[:, i].tolist(), codes[:, j].tolist(), strict=True))
            missing = []
            for a, first in enumerate(tunables[i].values):
                for b, second in enumerate(tunables[j].values):
                    if (a, b) not in there:
                        config = {**default, tunables[i].name: first, tunables[j].name: second}
                        missing.append((a, b, space.rejected(config) or "not in the list of configs"))
            if missing:
                found[f"{i},{j}"] = missing
    return found


def bound(problem: Any) -> tuple[float, str, str] | None:
    """A time to compare with, where there is one: the device's limit, or what BLAS would take; why, and its name."""
    measure = problem.measure
    if measure.kind == "static":
        from triton_kernels.tune.devices import DEVICES
        from triton_kernels.tune.triton_problems import KERNELS, dtype_of

        device, kernel = DEVICES.get(measure.target), KERNELS.get(problem.kernel)
        if device is None or kernel is None:
            return None
        peak, size = device.flops[problem.dtype], dtype_of(problem.dtype).itemsize
        work = [kernel.work(problem.shape, size, c) for c in itertools.islice(problem.space.configs(), _MOST_ASKED)]
        flops, moved = min(work, key=lambda w: max(w[0] / peak, w[1] / device.bytes_per_s))
        if flops / peak > moved / device.bytes_per_s:
            return flops / peak * 1e3, f"{flops:.3g} operations at {device.product}'s peak of {peak:.3g}/s", "bound"
        return (
            moved / device.bytes_per_s * 1e3,
            f"{moved:.3g} bytes at {device.product}'s {device.bytes_per_s:.3g}/s",
            "bound",
        )
    if measure.kind == "cpu" and problem.kernel.startswith("matmul"):
        from . import peaks

        machine = peaks.known("cpu")
        reached = machine.flops_per_s.get(problem.dtype) if machine else None
        if reached:
            m, n, k = problem.shape
            flops = 2.0 * m * n * k
            return (
                flops / reached * 1e3,
                f"{flops:.3g} operations at the {reached:.3g}/s that BLAS reached here",
                "BLAS",
            )
    return None


def take(view: Tuning, session: Session, event: ev.Event) -> None:
    """Take an event into the view."""
    table = session.table
    if isinstance(event, ev.Started):
        view.resumed, view.device = event.resumed, event.device
    elif isinstance(event, ev.Measured):
        if view.default_ms is None:
            view.default_ms = event.time_ms
        default = session.trials.default_ms
        row = table.row(event.config)
        value = float(session.trials.strategy.values[row]) / default if default == default else 1.0
        facts = _facts(session, event.config)
        status, twin = ("same", words(event.same_as)) if event.same_as else ("right", "")
        view.trials.append((list(table.code(event.config)), status, value, event.time_ms, twin, facts))
    elif isinstance(event, ev.Rejected):
        if table.find(event.config) is not None:
            codes = list(table.code(event.config))
            view.trials = [t for t in view.trials if t[0] != codes]  # it may have been right until the final
            view.trials.append((codes, event.status, None, None, event.reason, {}))
        view.reasons = list(ev.reasons_of(session.trials.rejected))
    elif isinstance(event, ev.Stopped):
        view.doing = "final"
    elif isinstance(event, ev.Finished):
        conclude(view, session, event.result)


def _facts(session: Session, config: Config) -> dict[str, Any]:
    built = session.trials.built.get(session.table.code(config))
    facts = built.facts if built else {}
    return {k: v for k, v in facts.items() if isinstance(v, int | float | str) and k not in _SPARE}


def conclude(view: Tuning, session: Session, result: ev.Result) -> None:
    """The end: the final's places, the verdict in words, the choice as code."""
    from .tuning import verdict

    default = result.default.config if result.default else None
    view.places = [
        (words(p.config), p.ratio, p.low, p.high, p.time_ms,
         ", ".join(["default"] * (p.config == default) + ["tied with the first"] * (p.config in result.ties)),
         ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in p.facts.items() if k not in _SPARE))
        for p in result.top
    ]  # fmt: skip
    view.verdict = [" · ".join(line.strip() for line in verdict(result))]
    view.notes = list(result.notes)
    view.reasons = list(result.reasons)
    view.spent_s = result.seconds
    view.state = {"failed": "failed"}.get(result.verdict, "stopped" if result.ended == "stopped" else "done")
    if result.best is not None and default is not None:
        view.chosen = words(result.best.config)
        if result.stored and result.verdict != "noisy":
            view.command = f"%tune {view.title}"
        view.code = code(default, result.best.config)


def words(config: Config) -> str:
    """A config on one line."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def code(default: Config, chosen: Config) -> str:
    """The choice as code to copy, with what differs from the default above it.

    >>> print(code({"BLOCK": 128, "num_warps": 4}, {"BLOCK": 256, "num_warps": 4}))
    # default: BLOCK=128 num_warps=4
    # changed: BLOCK 128 -> 256
    triton.Config({'BLOCK': 256}, num_warps=4)
    """
    changed = ", ".join(f"{n} {default[n]} -> {v}" for n, v in chosen.items() if default.get(n) != v) or "nothing"
    options = {n: v for n, v in chosen.items() if n in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    rest = {n: v for n, v in chosen.items() if n not in options}
    line = f"triton.Config({rest!r}, {', '.join(f'{n}={v}' for n, v in options.items())})" if options else repr(chosen)
    return f"# default: {words(default)}\n# changed: {changed}\n{line}"


# -- in a notebook -----------------------------------------------------------------------------------------------------

latest: Run | None = None
"""The run that was shown last: ``lab.panel.latest.wait()`` gives its result."""


def show(run: Run) -> None:
    """Show a run live in this cell's output and start it."""
    global latest
    from IPython import display

    publish: Any = display.publish_display_data
    latest = run
    panel = _widget()(run)
    name = uuid.uuid4().hex
    bundle = {**panel._repr_mimebundle_()[0], "text/plain": tuner.text(run.view), "text/html": tuner.html(run.view)}
    publish(bundle, transient={"display_id": name})

    def end() -> None:
        kept = {"text/html": tuner.html(run.view), "text/plain": tuner.text(run.view)}
        publish(kept, transient={"display_id": name}, update=True)

    panel.at_end = end
    run.start(panel.draw)


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
            # ipykernel answers on the shell that a comm last wrote from, which is busy while a cell runs; this keeps
            # messages on the subshell that they came by
            if hasattr(self.comm, "_reply_subshell_for"):
                self.comm._reply_subshell_for = lambda data, default: default
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
    return {"head": {**data, "css": sheet("tuner.css")}, "trials": trials}
