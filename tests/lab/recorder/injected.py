"""Failures of the recorder's own, put everywhere: ``python -m tests.lab.recorder.injected 500 [torch]``.

Half of the cells run through `lab.Recording`, and half as ``%%autograd`` cells of an IPython shell, where magics, the
build of the record, the diagnoses and the drawing of the card are let fail too.

Every function of the recorder (`PARTS`) is called through a counter. A cell is run once to count how often each is
called; then again and again, each time with one call of one function raising. Whatever raises, the cell prints, raises,
draws and computes as it does without a recorder, and the recording ends with a record.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import inspect
import io
import linecache
import pkgutil
import random
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from core.events import observe
from lab.notebook import magics
from lab.recorder import tensor_types
from lab.session.recording import Recording

NAMES = ["adapters", "diagnose", "recorder", "report.build_record", "report.call_places", "report.called_functions",
         "report.kept_graphs", "report.memory_course", "notebook.tracebacks"]  # fmt: skip
IN_A_SHELL = ["notebook.magics", "session.recording", "report.peaks", "notebook.card_buttons"]
CELLS = {
    "training": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.d = nn.Linear(4, 8), nn.Linear(8, 2), nn.Dropout(0.5)
            def forward(self, x):
                return self.b(self.d(self.a(x).relu()))
        model = Net()
        optimizer = lib.optim.Adam(model.parameters(), lr=0.01)
        data = lib.utils.data.TensorDataset(lib.randn(15, 4))
        for (x,) in lib.utils.data.DataLoader(data, batch_size=5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), lib.tensor([0, 1, 0, 1, 1]))
            loss.backward()
            optimizer.step()
        print(loss.item(), model.a.weight.grad.norm().item())
    """,
    "cuts": """
        w = lib.ones(3, requires_grad=True)
        y = (w * lib.rand(3)).exp()
        a = np.tanh(y.detach().numpy())
        z = (w * lib.tensor(a)).sum() + y.detach().max() + y[0].item()
        z.backward()
        with lib.no_grad():
            w -= 0.1 * w.grad
        print(w.grad.tolist(), repr(a), w.data.sum().item(), lib.cat([w, y]).shape, y[lib.tensor([0, 0])].tolist())
    """,
    "errors": """
        w = lib.ones(3, requires_grad=True)
        try:
            lib.ones(3, 2) @ lib.ones(3, 2)
        except RuntimeError as e:
            print("caught", type(e).__name__, e.__context__)
        bad = (w * float("inf") - w * float("inf")).sum()
        bad.backward()
        print(w.grad, lib.rand(2))
        (w * 2).reshape(7)
    """,
    "functions": """
        class Twice(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * 2
        w = lib.rand(3, requires_grad=True)
        w.register_hook(lambda g: print("hook", g.sum().item()))
        with lib.no_grad():
            v = w * 1
        (g,) = lib.autograd.grad(Twice.apply(w).square().sum(), [w], create_graph=True)
        g.sum().backward()
        print(g.tolist(), w.grad.tolist())
        print(lib.nn.Parameter((w * 2).detach()), nn.LSTM(2, 3)(lib.ones(4, 1, 2))[0].sum().item())
    """,
}


class Injected(Exception):
    """The recorder's own failure."""


def parts(shell: bool = False) -> list[types.ModuleType]:
    """The modules of the recorder; with `shell` also those of the magics and of the card."""
    found = []
    names = [f"lab.{name}" for name in (NAMES + IN_A_SHELL if shell else NAMES)] + ["widgets"] * shell
    for name in names:
        module = importlib.import_module(name)
        found.append(module)
        for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
            if inner.name != "torch" or "torch" in sys.modules:
                found.append(importlib.import_module(f"{name}.{inner.name}"))
    return found


class Injector:
    """Counts the calls of the recorder's functions, and lets one of them raise."""

    def __init__(self, shell: bool = False) -> None:
        self.shell = shell
        self.calls: Counter[str] = Counter()
        self.at: tuple[str, int] | None = None
        self.hit = False
        self._undo: list[Callable[[], None]] = []

    def wrapped(self, name: str, function: Any) -> Any:
        """`function`, counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if self.at is not None and self.at == (name, self.calls[name]):
                self.hit = True
                raise Injected(name)
            return function(*args, **kwargs)

        counted.__name__, counted.__wrapped__ = function.__name__, function  # type: ignore[attr-defined]
        counted.__code__ = counted.__code__.replace(co_filename=function.__code__.co_filename)  # the lab's, as before
        return counted

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Put the counters everywhere for the length of a block."""
        replaced: dict[int, Any] = {}
        modules = parts(self.shell)
        try:
            for module in modules:
                for name, value in list(vars(module).items()):
                    if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                        label = f"{module.__name__}.{name}"
                        wrappable = not inspect.isgeneratorfunction(value) and not hasattr(value, "__wrapped__")
                        if wrappable and label not in UNTOUCHED:
                            replaced[id(value)] = self.wrapped(label, value)
                    elif isinstance(value, type) and value.__module__ == module.__name__:
                        self._class(value)
            for module in [m for n, m in sys.modules.items() if n.partition(".")[0] in ("lab", "widgets")]:
                for name, value in list(vars(module).items()):
                    if id(value) in replaced and value is replaced[id(value)].__wrapped__:
                        self._set(module, name, replaced[id(value)])
            yield
        finally:
            for back in reversed(self._undo):
                back()
            self._undo.clear()

    def _class(self, kind: type) -> None:
        for name, value in list(vars(kind).items()):
            label = f"{kind.__module__}.{kind.__qualname__}.{name}"
            if isinstance(value, types.FunctionType) and not inspect.isgeneratorfunction(value):
                if name not in UNTOUCHED and label not in UNTOUCHED:
                    self._set(kind, name, self.wrapped(label, value))
            elif isinstance(value, property) and value.fget is not None:
                self._set(kind, name, property(self.wrapped(label, value.fget), value.fset))

    def _set(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner)[name]
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))


# the outermost: functions that hold the guard, and what puts the failure down, are not let fail themselves
UNTOUCHED = {"__class_getitem__", "failed", "_break", "safely", "_safely", "_watch", "_timed", "drop",
             "lab.adapters.ops.Ops.run", "lab.adapters.ops.Ops._custom", "lab.adapters.hooks.Ear.begin",
             "lab.adapters.hooks.Ear.end", "lab.adapters.hooks._Came.__call__", "lab.adapters.torch_course.Ear._asked",
             "lab.adapters.torch_course.Ear._stepping_begins", "lab.recorder.step_marks.Marks.hook",
             "lab.recorder.step_marks.Marks.over", "lab.recorder.step_marks.Marks.fails",
             "lab.adapters.torch_course.Ear._stepping_ends",
             "lab.notebook.tracebacks.shortened",  # where it fails, the whole traceback is shown, which is longer
             # the shell's way in: what the user typed is refused there, and what follows is guarded
             "guarded", "lab.notebook.magics.LabMagics.autograd", "lab.notebook.magics.flags_of",
             "lab.notebook.magics.rewrite", "lab.notebook.magics.load", "lab.notebook.magics.unload",
             "lab.notebook.tracebacks.install", "lab.notebook.tracebacks.remove",
             "lab.notebook.magics.LabMagics.__init__", "lab.notebook.magics.LabMagics.drop",
             "lab.notebook.magics.LabMagics.before", "lab.notebook.magics.LabMagics.after",
             "lab.notebook.magics.LabMagics.ended", "lab.notebook.magics.LabMagics.raising"}  # fmt: skip


def outcome(source: str, library: str, injector: Injector | None) -> tuple[Any, ...]:
    """What a cell prints, raises, leaves in its variables and of the random numbers; with the injector recorded."""
    lib = importlib.import_module(library)
    name = "<injected cell>"
    text = inspect.cleandoc(source) + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"lib": lib, "nn": lib.nn, "F": lib.nn.functional, "np": np, "__name__": "__main__"}
    lib.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    code, out, said, error = compile(text, name, "exec"), io.StringIO(), io.StringIO(), ""
    recording = Recording("injected") if injector is not None else None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said), np.errstate(all="ignore"):
        if recording is not None:
            recording.start({name: 0})
        try:
            exec(code, space)
        except Exception as e:
            error = f"{type(e).__name__}: {e}"
        if recording is not None:
            record = recording.stop(space, text, None, None)
            str(record)
    numpy: Any = np.random.get_state()  # noqa: NPY002
    state = random.getstate(), numpy[1].tolist(), lib.rand(3).tolist(), lib.is_grad_enabled()
    values = {k: repr(v.detach()) for k, v in sorted(space.items()) if type(v) is lib.Tensor}
    assert not observe.observers
    return out.getvalue(), said.getvalue(), error, state, values


def in_a_shell(source: str, library: str, injector: Injector | None) -> tuple[Any, ...]:
    """As `outcome`, of a cell of an IPython shell; with the injector under ``%%autograd``.

    What is left out of the output is one line about the recorder, and the card.
    """
    lib = importlib.import_module(library)
    make: Any = InteractiveShell
    shell = make(config=Config({"HistoryManager": {"enabled": False}}), colors="nocolor")
    before, InteractiveShell._instance = InteractiveShell._instance, shell
    space = {"lib": lib, "nn": lib.nn, "F": lib.nn.functional, "np": np}
    shell.user_ns.update(space)
    lib.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    magics.load(shell)
    publish, magics._publish = magics._publish, lambda bundle: None
    out, said = io.StringIO(), io.StringIO()
    text = inspect.cleandoc(source) + "\n"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said), np.errstate(all="ignore"):
            result = shell.run_cell(("%%autograd\n" if injector is not None else "pass\n") + text)
    finally:
        magics.unload(shell)
        magics._publish = publish
        InteractiveShell._instance = before
        atexit.unregister(shell.atexit_operations)  # a thousand shells would each collect garbage at the end
    lines = said.getvalue().splitlines()
    about = [line for line in lines if line.startswith("autograd: no card for this cell")]
    lines = [line for line in lines if line not in about[:1]]
    error = result.error_in_exec or result.error_before_exec
    numpy: Any = np.random.get_state()  # noqa: NPY002
    state = random.getstate(), numpy[1].tolist(), lib.rand(3).tolist(), lib.is_grad_enabled()
    values = {k: repr(v.detach()) for k, v in sorted(shell.user_ns.items()) if type(v) is lib.Tensor}
    assert not observe.observers
    return out.getvalue(), lines, f"{type(error).__name__}: {error}", state, values


def injections(
    library: str, wanted: int, seed: int = 0, shell: bool = False, within: str = ""
) -> Iterator[tuple[str, str, int]]:
    """(cell, function, which call of it), `wanted` of them: every function at its first and last call, then others.

    Those whose module's name begins with `within` alone.
    """
    rng = random.Random(seed)
    first, others = [], []
    for cell, source in CELLS.items():
        injector = Injector(shell)
        with injector.installed():
            (in_a_shell if shell else outcome)(source, library, injector)
        for name, count in injector.calls.items():
            if not name.startswith(within):
                continue
            first.append((cell, name, 1))
            others += [(cell, name, k) for k in {count, (count + 1) // 2} - {1}]
    rng.shuffle(first)
    rng.shuffle(others)
    while len(first) < wanted and others:
        first.append(others.pop())
    yield from first[:wanted]


def left_behind() -> list[str]:
    """What of the recorder's is still in PyTorch, or in Python where warnings are shown."""
    shown_by = getattr(warnings._showwarnmsg, "__module__", "")  # type: ignore[attr-defined]
    left = ["warnings"] * (shown_by not in ("warnings", "_py_warnings"))  # the latter from Python 3.14 on
    left += ["an adapter of tensors"] * bool(tensor_types.adapters)
    if "torch" not in sys.modules:
        return left
    torch = sys.modules["torch"]
    hooks = sys.modules["torch.nn.modules.module"]
    left += [name for name in ("_global_forward_pre_hooks", "_global_forward_hooks") if vars(hooks)[name]]
    left += ["a function mode"] * bool(torch._C._len_torch_function_stack())
    for owner, name in (torch.autograd.Function, "apply"), (torch.nn.Parameter, "__new__"), (torch, "compile"):
        now = vars(owner)[name]
        file = inspect.unwrap(getattr(now, "__func__", now), stop=lambda f: "adapters" in f.__code__.co_filename)
        left += [name] * ("adapters" in file.__code__.co_filename)
    return left


def run(library: str, wanted: int, seed: int = 0, shell: bool = False, within: str = "") -> tuple[int, list[str]]:
    """Let `wanted` calls fail, each by itself; how many did, and which of them a cell noticed."""
    outcome_of = in_a_shell if shell else outcome
    plain = {cell: outcome_of(source, library, None) for cell, source in CELLS.items()}
    failed, noticed = 0, []
    for cell, name, k in injections(library, wanted, seed, shell, within):
        injector = Injector(shell)
        injector.at = name, k
        with injector.installed():
            try:
                found: Any = outcome_of(CELLS[cell], library, injector)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
        failed += injector.hit
        if found == plain[cell] and (left := left_behind()):
            found = left
        if found != plain[cell]:
            noticed.append(f"{library}, {cell}: call {k} of {name}: {found!r:.300}")
    return failed, noticed


def main(arguments: list[str]) -> int:
    """Print the figure."""
    wanted = int(arguments[0]) if arguments else 500
    worst = 0
    for library in ["core", *arguments[1:]]:
        for shell in (False, True):
            failed, noticed = run(library, wanted, shell=shell)
            cells = f"{len(CELLS)} cells{' of a shell' if shell else ''}"
            print(f"{library}: {failed} injected failures over {cells}, noticed by the cell: {len(noticed)}")
            print("\n".join(noticed))
            worst |= bool(noticed)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
