"""A function on several ranks from a program: PyTorch's ``distributed.launcher``, over `core.distributed.run`.

The function is pickled, as ``multiprocessing`` does, so it stands in a file; what it returns comes back by rank.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from ..base.errors import text
from .elastic import ChildFailedError, ProcessFailure

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

api = sys.modules[__name__]  # PyTorch's file


@dataclass
class LaunchConfig:
    """How many ranks, and how often to start again. Settings of a rendezvous are kept and have no effect.

    >>> from core.distributed.launcher import LaunchConfig
    >>> LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2).max_restarts
    3
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    timeout: float | None = None  # of `core.distributed.run`; PyTorch has none


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: Any = ()) -> dict[int, Any]:
    """Call a function, or start a program, on all ranks; return what each has returned.

    Raises
    ------
    ChildFailedError
        Where a rank failed, and did so again after each restart.
    RuntimeError
        For more than one host: that is what ``python -m core.distributed.run --hosts`` is for.
    """
    if config.min_nodes != 1:
        raise RuntimeError(text("one launcher starts all ranks", op="distributed.launcher.elastic_launch",
                                came=f"min_nodes={config.min_nodes}", needed="min_nodes=1",
                                remedy="python -m core.distributed.run --hosts FILE"))  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="core.distributed.launcher.") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "core.distributed.run", "-n", str(config.nproc_per_node),
                   "--restarts", str(config.max_restarts), "--report", str(folder / "report"),
                   "--rdzv-id", config.run_id or "none"]  # fmt: skip
        command += [] if config.timeout is None else ["--timeout", str(config.timeout)]
        if callable(entrypoint):
            with open(folder / "call", "wb") as file:
                prepared = spawn.get_preparation_data("rank")
                pickle.dump({k: v for k, v in prepared.items() if k != "authkey"}, file)
                pickle.dump((entrypoint, tuple(args)), file)
            command += ["-m", "core.distributed.launcher", name]
        else:
            command += ["--no-python", str(entrypoint), *(str(a) for a in args)]
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
        if code:
            raise _error(str(entrypoint), code, folder / "report")
        return {k: pickle.loads(p.read_bytes()) for k in range(config.nproc_per_node)
                if (p := folder / f"result.{k}").exists()}  # fmt: skip


class elastic_launch:
    """A launcher of one function: ``elastic_launch(config, fn)(*args)`` calls it on all ranks."""

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        """Return what each rank has returned. *Raises*: as `launch_agent`."""
        return launch_agent(self._config, self._entrypoint, args)


def _error(name: str, code: int, report: Path) -> ChildFailedError:
    told = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    failures = {r["rank"]: ProcessFailure(r["rank"], r["pid"], r["code"] if r["code"] is not None else code, "",
                                          told["said"]) for r in told.get("failed", ())}  # fmt: skip
    return ChildFailedError(name, failures or {0: ProcessFailure(0, 0, code, "", told.get("said", ""))})


def _on_a_rank(folder: str) -> None:
    """Call the function of a folder, and leave there what it returns."""
    with open(os.path.join(folder, "call"), "rb") as file:
        spawn.prepare(pickle.load(file))  # type: ignore[attr-defined]
        function, args = pickle.load(file)
    found = function(*args)
    with open(os.path.join(folder, f"result.{os.environ['RANK']}"), "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    _on_a_rank(sys.argv[1])
