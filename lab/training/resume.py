"""A checkpoint of `lab.fit`: model, optimizer, schedule, history and random state, replaced whole after every epoch."""

from __future__ import annotations

import ast
import os
import random
from typing import Any

import numpy as np

import core

VERSION = 1


def save(run: Any, path: str | os.PathLike[str]) -> None:
    """Write the state of a run; whoever is killed meanwhile leaves the old file whole."""
    state: dict[str, Any] = {
        "lab.fit": VERSION,
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "history": run.history.state_dict(),
        "random": [g.get_state() for g in _generators(run)],
        "python": repr(random.getstate()),
    }
    kind, keys, at, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - what users draw from
    state["numpy"] = [str(kind), np.asarray(keys, np.int64), int(at), int(has_gauss), float(gauss)]
    for name in ("scheduler", "scaler"):
        if (part := getattr(run, name)) is not None:
            state[name] = part.state_dict()
    core.save(state, path)


def load(run: Any, path: str | os.PathLike[str]) -> int:
    """Take over a checkpoint if the file is there; how many epochs it has (0: no file).

    *Raises*: ValueError when the file is none of `lab.fit`, or of another model or optimizer.
    """
    if not os.path.exists(path):
        return 0
    state = core.load(path)
    if not isinstance(state, dict) or state.get("lab.fit") != VERSION:
        raise ValueError(f"lab.fit: {os.fspath(path)} is no checkpoint of lab.fit\n  remedy: another file "
                         "for checkpoint=, or load it yourself and leave checkpoint= out")  # fmt: skip
    for name in ("model", "optimizer", "scheduler", "scaler"):
        part = getattr(run, name)
        if (part is not None) != (name in state):
            came, needed = ("no", "one") if name not in state else ("a", "none")
            raise ValueError(f"lab.fit: {os.fspath(path)} has {came} {name}, and this run has {needed}")
        if part is not None:
            try:
                part.load_state_dict(state[name])
            except (RuntimeError, ValueError, KeyError) as error:
                first = str(error).splitlines()[0]
                raise ValueError(f"lab.fit: {os.fspath(path)} is of another {name}: {first}\n  remedy: another file "
                                 "for checkpoint=, or delete this one to begin anew") from error  # fmt: skip
    run.history.load_state_dict(state["history"])
    for generator, at in zip(_generators(run), state["random"], strict=False):
        generator.set_state(at)
    random.setstate(_python(state["python"]))
    kind, keys, at, has_gauss, gauss = state["numpy"]
    keys = keys.numpy() if isinstance(keys, core.Tensor) else np.asarray(keys)
    np.random.set_state((kind, keys.astype(np.uint32), int(at), int(has_gauss), float(gauss)))  # noqa: NPY002
    return len(run.history.epochs)


def _generators(run: Any) -> list[Any]:
    """Return the default generator, and those that the data draw their orders from."""
    found = [core.default_generator]
    for data in (run.data, run.validation):
        for holder in (data, getattr(data, "sampler", None)):
            generator = getattr(holder, "generator", None)
            if generator is not None and all(generator is not g for g in found):
                found.append(generator)
    return found


def _python(said: str) -> Any:
    """Return the state of `random` from its text: tuples and numbers alone."""
    return ast.literal_eval(said)
