"""A card's buttons reach the kernel that drew it: "Tune this kernel" starts the tuner below it, "Try it" a trial.

A saved card has nobody to ask, and a page cannot write into the notebook. While the notebook is open, a widget without
a view listens in its page (`widgets/live/src/listener.js`); a card names it and its own place in the attribute
`data-kernel`. What comes from there is a line of text: a `%tune` command that this file understands, or `try` and the
number of a finding. None of it is ever run as code.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import threading
import uuid
from typing import Any

from widgets import tuner

from . import try_button

MOST = 500  # cards whose place is remembered
LONGEST = 2000  # characters of a command


class Bridge:
    """One kernel's end: the places of the cards it drew, and the widget that hears their buttons."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.places: dict[str, dict[str, Any]] = {}
        self.widget: Any = None
        self._lock = threading.Lock()
        self._count = 0

    def place(self, parent: dict[str, Any]) -> str:
        """Remember the cell that a message has run; what its card is to be marked with."""
        self._count += 1
        self.places[str(self._count)] = parent
        if len(self.places) > MOST:
            del self.places[next(iter(self.places))]
        return f"{self.name} {self._count}"

    def connect(self) -> None:
        """Make the widget, once."""
        with self._lock:
            if self.widget is None:
                self.widget = self._made()

    def _made(self) -> Any:
        import anywidget
        import traitlets

        class Listener(anywidget.AnyWidget):  # type: ignore[misc]
            """Has no view: its script listens as soon as it is made."""

            _esm = tuner.listener()
            name: Any = traitlets.Unicode().tag(sync=True)
            page: Any = traitlets.Unicode().tag(sync=True)

        made = Listener(name=self.name)
        on_this_subshell(made)
        made.on_msg(lambda _, content, buffers: self.hear(content))
        made.observe(self._turned, "page")
        return made

    def _turned(self, change: Any) -> None:
        """The page was loaded anew: what was drawn in the old one has no place in it."""
        if change["old"]:
            self.places.clear()

    def hear(self, content: Any) -> None:
        """A button was pressed: it is answered from a thread, since a problem takes a while to be made."""
        if isinstance(content, dict):
            self.widget.send({"id": content.get("id"), "heard": True})
            threading.Thread(target=self.answer, args=(content,), name="gradlab bridge", daemon=True).start()

    def answer(self, content: dict[str, Any]) -> None:
        """Do what is asked, and say what came of it; nothing is said where that needs a place that is not known."""
        place = str(content.get("place"))
        parent = self.places.get(place)
        ok = False
        try:
            told = obey(str(content.get("command"))[:LONGEST], parent, f"{self.name} {place}")
            ok = told["said"] != ""
        except Exception as error:
            told = {"said": str(error) or type(error).__name__}
        self.widget.send({"id": content.get("id"), "ok": ok, **told})


_one_at_a_time = threading.Lock()


def obey(command: str, parent: dict[str, Any] | None, place: str) -> dict[str, str]:
    """Do what the button of a card asks; return what the card is to say. *Raises*: ValueError for any other command.

    parent : the message that ran the card's cell, None where it is not known any more, so that nothing can be shown
        below the card
    place : what the card is marked with
    """
    finding = re.fullmatch(r"try ([0-9]{1,4})", command)
    if finding:
        return try_button.press(place, int(finding[1]))
    magic, *given = shlex.split(command)
    if magic != "%tune" or not given:
        raise ValueError("a card's buttons can ask for %tune and try alone")
    return {"said": "" if parent is None else _tune(given, parent)}


def _tune(given: list[str], parent: dict[str, Any]) -> str:
    """Run a `%tune` command below the card of a cell."""
    from ..tuning import command as tuning
    from . import panel

    options, problem = tuning.understood(given)
    if options.use is not None:
        return tuning.use(problem, options.use)
    with _one_at_a_time:  # a press while the first one's problem is being made is a second press, not a second run
        if panel.busy_with(problem):
            return "It is being tuned already."
        panel.show(panel.made(options, problem), parent)
    return "The tuner's panel is below this card."


# -- the kernel that this is -------------------------------------------------------------------------------------------

_bridge: Bridge | None = None


def message_of_cell() -> dict[str, Any] | None:
    """Return the message that runs this cell, where it came from a notebook that a person has open.

    An open notebook names the cell; programs that execute one (nbconvert, nbclient, papermill) and consoles do not.
    """
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None or not hasattr(shell.display_pub, "set_thread_parent"):
        return None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    return parent if isinstance(parent, dict) and (parent.get("metadata") or {}).get("cellId") else None


def place() -> str:
    """Return what a card that is drawn now is to be marked with; "" where nobody can press its buttons."""
    global _bridge
    parent = message_of_cell()
    if parent is None:
        return ""
    if _bridge is None:
        _bridge = Bridge()
    return _bridge.place({"header": parent["header"]})


def connect() -> None:
    """Listen, from a thread: the widget's package takes a while to load, and the cell need not wait for it."""
    if _bridge is not None and _bridge.widget is None:
        threading.Thread(target=_connect, args=(_bridge,), name="gradlab bridge", daemon=True).start()


def _connect(bridge: Bridge) -> None:
    with contextlib.suppress(Exception):  # without the widget the buttons copy their command
        bridge.connect()


def on_this_subshell(widget: Any) -> None:
    """Let a widget's messages act while a cell runs.

    ipykernel answers on the shell that a comm last wrote from, which is busy while a cell runs; this keeps messages on
    the subshell that they came by.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default
