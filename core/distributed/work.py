"""What `async_op=True` gives: an operation between processes on its way, and how one waits for it.

MPI moves data only while it is called, so `Work.wait` tests its requests again and again, and `progress` tests those of
all work that nobody waits for. A work holds the arrays of its operation until it is done, whether or not the program
holds the work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.errors import text
from ..events import observe
from ..futures import Future
from .dist_errors import DistBackendError

if TYPE_CHECKING:
    from .checking import Beside

__all__ = ["Work", "finish", "progress", "seconds"]

# How wait() spends its time between two tests: first it yields the processor, then it sleeps. Who yields on a processor
# that others want comes back after all of them, who has slept comes soon: with 20 programs on two processors a sum of
# 1 MB took 4.5 ms with yields alone and 2.8 ms so (gloo 2.3; of 10 MB 9, 8 and 22 ms).
_YIELDING_S = 1e-4
_PAUSES_S = ((0.1, 1e-5), (1.0, 1e-4), (float("inf"), 1e-3))  # how long it has waited, and how long it sleeps
_open: dict[int, Work] = {}


class Now:
    """What the launcher reads of this process: what it waits for, the innermost last, and how much has been done."""

    waits_for: ClassVar[list[Work]] = []
    ended = 0


def progress() -> None:
    """Let all work go on that is on its way."""
    for work in list(_open.values()):
        work.is_completed()


def finish(group: Any) -> None:
    """Wait for all work of a group that nobody has waited for; what nobody sends is not awaited. *Raises*: as
    `Work.wait`."""
    for work in list(_open.values()):
        if work.group is group and not work.is_completed():
            if work.op == "irecv":
                work.give_up()
            else:
                work.wait()


def seconds(timeout: Any) -> float:
    """Return a timeout, a `timedelta` or a number, in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class _WorkFuture(Future[Any]):
    """A future whose `wait` lets its work go on."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def done(self) -> bool:
        """Return whether it has a value or an error."""
        return self._done or (self._work.is_completed() and self._done)

    def wait(self) -> Any:
        """Return the tensors once the work is done. *Raises*: its error."""
        if not self._done:
            self._work.wait()
        return self.value()

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """Return a future of what a function gives for this one."""
        made = _WorkFuture(self._work)

        def run(done: Future[Any]) -> None:
            try:
                found = callback(done)
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(found)

        self.add_done_callback(run)
        return made


class Work:
    """An operation on its way. `requests` are what is tested, `finish` what is called once when they are all done."""

    def __init__(self, op: str = "", group: Any = None, requests: list[Any] | None = None,
                 finish: Callable[[], None] | None = None, result: Any = None, size_bytes: int = 0,
                 held: Any = None, beside: Beside | None = None) -> None:  # fmt: skip
        self.op, self.group, self.size_bytes = op, group, size_bytes
        self._all = self._requests = requests or []
        self._finish, self._result, self._held, self._beside = finish, result, held, beside
        self._error: BaseException | None = None
        self._future: _WorkFuture | None = None
        self._done = False
        progress()
        _open[id(self)] = self
        observe.tell("collective", self, "begun")
        self.is_completed()

    def is_completed(self) -> bool:
        """Return whether it is done (or has failed), and let it go on."""
        if not self._done:
            try:
                self._requests = [r for r in self._requests if not r.Test()]
            except Exception as error:
                self._fail(self._mismatch() or self._broken(error))
            else:
                if not self._requests:
                    self._end()
        return self._done

    def give_up(self) -> None:
        """Await a message no more."""
        for request in self._requests:
            request.cancel()
        self._requests, self._done = [], True
        _open.pop(id(self), None)

    def _end(self) -> None:
        error = self._mismatch()
        if error is not None:
            self._fail(error)
            return
        self._done = True
        Now.ended += 1
        _open.pop(id(self), None)
        observe.tell("collective", self, "done")
        if self._finish is not None:
            self._finish()
        self._finish = self._held = self._beside = None
        if self._future is not None and not self._future._done:
            self._future.set_result(self.result())

    def _fail(self, error: BaseException) -> None:
        """Keep the error; the arrays stay held, for MPI may still write into them."""
        self._error, self._done = error, True
        observe.tell("collective", self, "failed")
        if self.group is not None:
            self.group.failed()
        if self._future is not None and not self._future._done:
            self._future.set_exception(error)

    def _mismatch(self) -> DistBackendError | None:
        return None if self._beside is None else self._beside.mismatch()

    def _where(self) -> str:
        g = self.group
        return "" if g is None else f"rank {g.rank()} of {g.size()} in group {g.group_name!r}"

    def _broken(self, error: Exception) -> DistBackendError:
        remedy = "TORCH_DISTRIBUTED_DEBUG=DETAIL names the lines of both ranks"
        return DistBackendError(text(f"{self.op} failed: {error}", op=f"distributed.{self.op}",
                                     came=f"{self.size_bytes} bytes at {self._where()}",
                                     needed="the same collective with the same shape and dtype on every rank",
                                     remedy=remedy))  # fmt: skip

    def _alone(self, gone: list[int]) -> DistBackendError:
        return DistBackendError(text(f"Connection closed by peer: rank {', '.join(map(str, gone))} has ended",
                                     op=f"distributed.{self.op}", came=f"{self.size_bytes} bytes at {self._where()}",
                                     needed="every rank of the group", remedy="its own error says why"))  # fmt: skip

    def waits_for(self) -> list[int]:
        """Return the ranks whose messages have not come, as far as is known."""
        return [self.group.ranks[r.peer] for r in self._requests if getattr(r, "peer", -1) >= 0]

    def _late(self, limit: float) -> DistBackendError:
        missing = self.waits_for()
        whom = f"; nothing has come from rank {', '.join(map(str, missing))}" if missing else ""
        return DistBackendError(text(f"Timed out waiting {limit * 1000:.0f}ms for {self.op} to complete{whom}",
                                     op=f"distributed.{self.op}", came=f"{self.size_bytes} bytes at {self._where()}",
                                     needed="every rank of the group in the same call",
                                     remedy="look at what the other ranks do: one has ended, hangs, or called another "
                                            "collective (TORCH_DISTRIBUTED_DEBUG=DETAIL names its line); or give "
                                            "init_process_group a longer timeout"))  # fmt: skip

    def _poll(self, limit: float) -> None:
        """Test it again and again; at its limit it fails."""
        begin, asked = time.monotonic(), 1.0
        while not self.is_completed():
            waited = time.monotonic() - begin
            if waited > limit:
                self._fail(self._mismatch() or self._late(limit))
            elif waited > asked:
                asked = waited + 1.0
                gone, error = self.group.lost(), self._mismatch()
                if error is not None or gone:
                    self._fail(error or self._alone(gone))
            elif waited < _YIELDING_S:
                os.sched_yield()
            else:
                progress()  # what another rank waits for may be a sum of narrow floats that this one has to send on
                time.sleep(next(pause for until, pause in _PAUSES_S if waited < until))

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done; return True. *Raises*: DistBackendError after the group's timeout, or if it failed."""
        if not self.is_completed():
            limit = seconds(timeout) if timeout else self.group.timeout_s
            observe.tell("collective", self, "waits")
            Now.waits_for.append(self)
            try:
                self._poll(limit)
            finally:
                Now.waits_for.pop()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until it is done. *Raises*: as `wait`."""
        self.wait()

    def is_success(self) -> bool:
        """Return whether it is done and did not fail."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error of work that failed."""
        return self._error

    def result(self) -> Any:
        """Return the tensors."""
        return self._result if isinstance(self._result, list) else [self._result]

    def source_rank(self) -> int:
        """Return the rank that a message came from."""
        return int(self.group.ranks[self._all[0].source])

    def get_future(self) -> Future[Any]:
        """Return the tensors as a future, whose `wait` lets the work go on."""
        if self._future is None:
            self._future = _WorkFuture(self)
            if self.is_completed() and not self._future._done:
                if self._error is None:
                    self._future.set_result(self.result())
                else:
                    self._future.set_exception(self._error)
        return self._future
