"""`%%autograd --try`: the cell before it runs, kept as a sleeping process; what hides its copies."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher

from widgets.record import Record

from ..prove import proving, snapshot

_MAGICS = ("%%autograd", "%%time", "%%capture")  # that stand above the cell's own text


class Trying:
    """The trials of one cell, from its start to its card; `asked`: whether somebody wants them, and may wait for it."""

    def __init__(self, shell: Any, *, asked: bool = True) -> None:
        self.snapshot: snapshot.Snapshot | None = None
        self.reason = snapshot.missing(asked=asked)
        if not self.reason:
            try:
                self.snapshot = snapshot.Snapshot(snapshot.Scene(shell.user_ns, _Python(shell), _Quiet(shell)))
            except OSError as error:
                self.reason = f"no process could be made: {error}"

    def finish(self, record: Record, text: str) -> None:
        """Try the remedies of a record, or say why they are not tried; an interrupt ends the trials."""
        try:
            if self.snapshot is None:
                proving.propose(record, text, self.reason)
            else:
                proving.prove(record, self.snapshot, text)
        except KeyboardInterrupt:
            print("autograd: the trials were stopped.", file=sys.stderr)
        finally:
            self.close()

    def close(self) -> None:
        """End the sleeping process."""
        if self.snapshot is not None:
            self.snapshot.close()


class _Python:
    """A cell's text as Python, its lines where they are."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def __call__(self, text: str) -> str:
        lines = text.split("\n")
        for k, line in enumerate(lines):
            if line.strip() and not line.startswith(_MAGICS):
                break
            lines[k] = "#"  # IPython would take blank lines off, and give the rest to the magic
        python: str = self.shell.transform_cell("\n".join(lines))
        return python


class _Quiet:
    """Called in a copy of the process: nothing it shows or asks may reach the notebook."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def __call__(self) -> None:
        shell = self.shell
        shell.display_pub = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
        sys.displayhook = shell.displayhook = CapturingDisplayHook(shell, [])  # type: ignore[no-untyped-call]
        kernel = getattr(shell, "kernel", None)
        if kernel is not None:
            kernel.raw_input = kernel.getpass = _refuse
        comm: Any = sys.modules.get("comm")
        theirs = sys.modules.get("ipykernel.comm.comm")
        if comm is not None:  # a widget made again must not speak to the page
            comm.create_comm = comm.base_comm.BaseComm
            comm.base_comm.BaseComm.publish_msg = _nothing
        for name in ("BaseComm", "Comm"):
            if hasattr(theirs, name):
                getattr(theirs, name).publish_msg = _nothing


def _refuse(*_: object, **__: object) -> Any:
    raise RuntimeError("the cell asks for input, which a trial does not have")


def _nothing(*_: object, **__: object) -> None:
    pass
