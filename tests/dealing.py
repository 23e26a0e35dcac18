"""How pytest-xdist deals files out to its processes, and what it does where one of them dies."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling


class Files(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
    """A file to a process."""

    def remove_node(self, node: Any) -> str | None:
        """Give the tests of a process that has died to the others, and return the one that it died in.

        That one has had its run. pytest-xdist 3.8 would run it again, end another process by it, and wait for ever.
        """
        units = self.assigned_work.pop(node)
        died_in = next((test for unit in units.values() for test, done in unit.items() if not done), None)
        for name, unit in units.items():
            if died_in in unit:
                unit[died_in] = True
            if not all(unit.values()):
                self.workqueue[name] = unit
        for other in self.assigned_work:
            self._reschedule(other)
        return died_in
