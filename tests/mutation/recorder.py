"""A pytest plugin of the mutation tests: notes which tests pass which probe, and runs the tests that are chosen.

The variable GRADLAB_MUTATION names a JSON file: `memory` (the bytes that probes set), `out` (where to write what was
seen), `reverse` (run in reversed order), `watched` (files that only a reader of sources opens), `chosen` and `left_out`
(ids of tests, or None).
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .probes import SIZE


def cpu() -> float:
    """Return the processor time of this process and of those it has waited for."""
    return sum(os.times()[:4])


class Recorder:
    """What pytest asks the plugin, and what it has seen so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        with open(settings["memory"], "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        self.by_test: dict[str, set[int]] = defaultdict(set)
        self.by_module: dict[str, set[int]] = defaultdict(set)
        self.by_fixture: dict[int, set[int]] = defaultdict(set)
        self.outside: set[int] = set()  # by imports that no test file asks for, between tests
        self.readers: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, list[int]] = {}
        self.failed: set[str] = set()
        self.now = ""
        self.missing = 0
        self.ended = 0
        self.watched = set(settings.get("watched", ()))
        if self.watched:
            sys.addaudithook(self.opened)

    def take(self) -> set[int]:
        """Return the probes passed since the last call."""
        seen = self.memory[: SIZE - 8]
        if not any(seen):
            return set()
        self.memory[: SIZE - 8] = bytes(SIZE - 8)
        return {number for number, passed in enumerate(seen) if passed}

    def opened(self, event: str, args: tuple[Any, ...]) -> None:
        """Note who reads a source: its text, not its running, may be what that test depends on."""
        if event != "open" or not isinstance(args[0], str) or args[0] not in self.watched or not self.now:
            return
        if not sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
            self.readers[args[0]].add(self.now)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        self.outside |= self.take()
        yield
        seen, file = self.take(), collector.nodeid.partition("::")[0]
        if file.endswith(".py"):
            self.by_module[file] |= seen
        else:
            self.outside |= seen  # a folder with its conftest

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen, left_out = self.settings.get("chosen"), set(self.settings.get("left_out", ()))
        kept = [item for item in items if item.nodeid not in left_out]
        if chosen is not None:
            wanted = set(chosen) - left_out
            kept = [item for item in kept if item.nodeid in wanted]
            self.missing = len(wanted - {item.nodeid for item in kept})
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = reversed(kept) if self.settings.get("reverse") else kept
        for item in items:
            defined = getattr(item, "_fixtureinfo", None)
            found = defined.name2fixturedefs.values() if defined is not None else ()
            self.fixtures[item.nodeid] = [id(fixture) for fixtures in found for fixture in fixtures]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """What a fixture of a whole module runs is run for all who ask for it, not for the first alone."""
        if fixturedef.scope == "function":
            yield
            return
        self.by_test[self.now] |= self.take()
        yield
        seen = self.take()
        self.by_test[self.now] |= seen
        self.by_fixture[id(fixturedef)] |= seen

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.outside |= self.take()
        self.now = item.nodeid
        begun = cpu()
        yield
        self.by_test[self.now] |= self.take()
        self.seconds[self.now] = cpu() - begun
        self.now = ""
        self.ended += 1
        self.memory[SIZE - 8 :] = self.ended.to_bytes(8, "little")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.outside |= self.take()
        passed = {}
        for test in self.seconds:
            file = test.partition("::")[0]
            numbers = self.by_test[test] | self.by_module[file]
            for fixture in self.fixtures[test]:
                numbers |= self.by_fixture.get(fixture, set())
            passed[test] = sorted(numbers)
        told = {
            "passed": passed,
            "outside": sorted(self.outside),
            "readers": {file: sorted(tests) for file, tests in self.readers.items()},
            "seconds": self.seconds,
            "failed": sorted(self.failed),
            "missing": self.missing,
        }
        Path(self.settings["out"]).write_text(json.dumps(told), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    named = os.environ.get("GRADLAB_MUTATION")
    if named:
        config.pluginmanager.register(Recorder(json.loads(Path(named).read_text(encoding="utf-8"))), "mutation")
