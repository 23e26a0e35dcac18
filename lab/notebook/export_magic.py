"""What `%export` and `%%export` do: a function or a module written for others, measured beside itself, on a card."""

from __future__ import annotations

import argparse
import ast
import builtins
import difflib
import linecache
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.error import UsageError

from core.base import syntax
from core.export.capture import export
from core.export.ir import ExportError
from core.export.printing import program_lines
from core.export.sizes import evaluate
from core.tensors.tensor import Tensor
from widgets import exported
from widgets.exported import Exported
from widgets.figures import count_text, size_text

from ..console.options import HELP, Parser, meant
from . import export_targets
from .export_targets import TARGETS, Run

EXAMPLE = "%export model(x) --dynamic x:0=batch --to numpy,c,onnx,gl --out folder"
Publish = Callable[[dict[str, str]], None]


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%export: {message}")


def parser() -> Parser:
    """Return the options' parser; the call before them is read by Python's."""
    found = _Parser(prog="%export", add_help=False, usage="%%export CALL [options]", example=EXAMPLE, description=(
        "Write a function or a module for others: CALL is a call of it as you would write it, on example arguments.\n"
        "The card has the program beside its source, and of each form its size, its latency beside the eager call's\n"
        "and its largest error on other data. %%export runs its cell first."),
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    found.add_argument("--dynamic", nargs="+", default=[], metavar="[NAME:]AXIS=SIZE[,AXIS=SIZE]",
                       help="axes that may have other sizes, and what these are called: x:0=batch,1=time")  # fmt: skip
    found.add_argument("--to", default=",".join(TARGETS), help=f"the forms ({','.join(TARGETS)})")
    found.add_argument("--out", metavar="FOLDER", help="where the files stay; without it they are measured only")
    found.add_argument("--name", help="what the program and its files are called")
    return found


def export_line(line: str, namespace: dict[str, Any], publish: Publish) -> None:
    """Export what the line of `%export` calls and show the card.

    *Raises*: UsageError for a line that cannot be understood; what the function itself raises.
    """
    if not line.strip() or set(HELP) & set(line.split()):
        print(parser().format_help())
        return
    call, rest = parted(line)
    try:
        options = parser().parse_args(shlex.split(rest))
    except ValueError as error:
        raise UsageError(f"%export: {error}") from None
    function, args = called(call, namespace)
    targets = targets_of(options.to)
    view = shown(ast.unparse(call), function, args, dynamic_of(options.dynamic, call), targets, options)
    publish({"text/html": exported.html(view), "text/plain": exported.text(view)})


# -- the line ----------------------------------------------------------------------------------------------------------


def parted(line: str) -> tuple[ast.Call, str]:
    """Return the call at the beginning of a line, and the options behind it. *Raises*: UsageError.

    >>> call, rest = parted("model (x,) --to c")
    >>> ast.unparse(call), rest
    ('model(x)', '--to c')
    """
    ends = [found.start() for found in re.finditer(r"(?<!\S)--[a-z]", line)] + [len(line)]
    error: SyntaxError | None = None
    for end in ends:  # the first beginning that is Python: a text among the arguments may have -- in it
        try:
            body = syntax.expression(line[:end].strip())
        except SyntaxError as wrong:
            error = error or wrong
            continue
        if not isinstance(body, ast.Call):
            said = line[:end].strip()
            raise UsageError(f"%export: {said!r:.80} is no call; needed: the function on example arguments. "
                             f"Example: {EXAMPLE}")  # fmt: skip
        if body.keywords:
            name = body.keywords[0].arg
            raise UsageError(f"%export: arguments are given by position; came: {name}=.... "
                             "Remedy: a function of one's own that gives it")  # fmt: skip
        return body, line[end:]
    came = f"{error.msg}: {line[: ends[0]].strip()!r:.80}" if error is not None and ends[0] else "nothing to call"
    raise UsageError(f"%export: {came}; needed: a call and options. Example: {EXAMPLE}")


def called(call: ast.Call, namespace: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the function and the arguments that a call names. *Raises*: UsageError for a name that there is not."""
    tuple_ = ast.Tuple(elts=call.args, ctx=ast.Load())
    try:
        function, args = (eval(compile(ast.fix_missing_locations(ast.Expression(x)), "%export", "eval"), namespace)
                          for x in (call.func, tuple_))  # fmt: skip
    except NameError as error:
        name = getattr(error, "name", None) or ""
        known = [n for n in namespace if not n.startswith("_")]
        near = meant(name, [*known, *vars(builtins)])
        raise UsageError(f"%export: nothing is called {name!r}{near}") from None
    except Exception as error:
        raise UsageError(f"%export: {ast.unparse(call)!r:.80}: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise UsageError(f"%export: {ast.unparse(call.func)!r:.80} is no function and no module but "
                         f"{type(function).__name__}")  # fmt: skip
    return function, args


def dynamic_of(words: list[str], call: ast.Call) -> dict[str | None, dict[int, str]]:
    """Return the named sizes by argument; None stands for the only one. *Raises*: UsageError.

    >>> dynamic_of(["x:0=batch,1=time"], ast.parse("f(x)", mode="eval").body)
    {'x': {0: 'batch', 1: 'time'}}
    """
    out: dict[str | None, dict[int, str]] = {}
    for word in words:
        name, colon, axes = word.rpartition(":")
        if not colon and len(call.args) != 1:
            raise UsageError(f"%export: --dynamic {word}: which argument? Needed: NAME:AXIS=SIZE, as x:0=batch")
        for part in axes.split(","):
            found = re.fullmatch(r"(\d{1,2})=([A-Za-z_]\w*)", part)
            if found is None:
                raise UsageError(f"%export: --dynamic {word}: {part!r:.40} is not AXIS=SIZE, as 0=batch")
            out.setdefault(name if colon else None, {})[int(found[1])] = found[2]
    return out


def targets_of(said: str) -> list[str]:
    """Return the targets' names. *Raises*: UsageError for one that there is not."""
    names = list(dict.fromkeys(filter(None, said.split(","))))
    for name in names:
        if name not in TARGETS:
            near = difflib.get_close_matches(name.lower(), TARGETS, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else ";"
            raise UsageError(f"%export: --to {name!r:.40} is not known{hint} there are {', '.join(TARGETS)}")
    if not names:
        raise UsageError(f"%export: --to needs at least one of {', '.join(TARGETS)}")
    return names


# -- the work ----------------------------------------------------------------------------------------------------------


def _exported(title: str, function: Any, args: tuple[Any, ...], dynamic: Any, name: str | None) -> Any:
    """Return the program, captured by code whose one line is the user's call: an op that no other line of theirs runs,
    as those of a module of core, has that place and none of this file."""
    file, said = "<%export>", title.replace("\n", " ")
    linecache.cache[file] = (len(said), None, [said + "\n"], file)
    tree = ast.parse("program = export(function, args, dynamic, name=name)")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            node.lineno = node.end_lineno = 1
            node.col_offset, node.end_col_offset = 0, len(said.encode())
    space = {"export": export, "function": function, "args": args, "dynamic": dynamic, "name": name}
    exec(compile(tree, file, "exec"), space)
    return space["program"]


def shown(title: str, function: Any, args: tuple[Any, ...], dynamic: dict[str | None, dict[int, str]],
          targets: list[str], options: argparse.Namespace) -> Exported:  # fmt: skip
    """Export, write and measure; what cannot be exported is said in the view."""
    try:
        named = {(_only_parameter(function, args) if name is None else name): axes for name, axes in dynamic.items()}
        program = _exported(title, function, args, named, options.name)
    except ExportError as error:
        said, remedy = export_targets.refusal_of(error)
        return Exported(title, refusal=said, remedy=remedy)
    except ValueError as error:
        if "dynamic" not in str(error):  # else it is the function's own
            raise
        raise UsageError(f"%export: {error}") from None
    sizes = f", sizes {', '.join(program.sizes)}" if program.sizes else ""
    state = f"{size_text(program.weight_bytes())} of state" if program.state else "no state"
    view = Exported(title, place=f"{count_text(len(program.nodes), 'op')}, {state}{sizes}",
                    lines=[_line(said, line) for said, line in program_lines(program)])  # fmt: skip
    if options.out:
        folder = Path(options.out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"%export: --out {options.out}: {error}") from None
        _measured(view, function, program, args, targets, folder)
        view.kept = f"files in {folder}"
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            _measured(view, function, program, args, targets, Path(temporary))
        view.kept = "no files were kept: --out FOLDER keeps them"
    return view


def _only_parameter(function: Any, args: tuple[Any, ...]) -> str:
    """Return what `core.export` calls the only argument."""
    return str(export(function, args).parameters[0])


def _line(said: str, line: Any) -> tuple[str, str, str]:
    if line is None:
        return said, "", ""
    file = line.file.replace("\\", "/").rpartition("/")[2]
    return said, f"{file}:{line.number}", line.text


def _measured(view: Exported, function: Any, program: Any, args: tuple[Any, ...], targets: list[str],
              folder: Path) -> None:  # fmt: skip
    """Write the targets, and run those that were written beside the function."""
    found = [export_targets.written(program, name, folder) for name in targets]
    view.targets = [target for target, _ in found]
    if program.updates:
        moved = ", ".join(old.name for old, _ in program.updates[:3])
        view.at = f"not run: it writes {moved}, and every run would change what the next one gives"
        return
    given = [t._a for t in program.flat(args, lambda x: isinstance(x, Tensor))]
    eager = export_targets.run_eager(function, program)
    runs: dict[str, Run] = {target.name: run for target, run in found if run is not None}
    first = next(iter(program.sizes), "")
    other = {name: n + 1 for name, n in program.sizes_of([a.shape for a in given]).items()}
    at = export_targets.sizes_like(program, given, [other, {first: other[first]}] if first else [])
    data = export_targets.data_like(program, given, at, 1)
    wanted = eager([a.copy() for a in data])
    for target in view.targets:
        if target.name not in runs:
            continue
        try:
            result = runs[target.name]([a.copy() for a in data])
            target.error, target.scale = export_targets.difference(result, wanted)
        except Exception as error:
            export_targets.failed(target, error)
            del runs[target.name]
    one = export_targets.sizes_like(program, given, [{first: 1}] if first else [])
    data = export_targets.data_like(program, given, one, 2)
    times = _timed(view, {"eager": eager, **runs}, data)
    view.eager_s = times.pop("eager", None)
    for target in view.targets:
        target.latency_s = times.get(target.name)
    view.at = f"latency at {_shapes(program, one)}, error at {_shapes(program, at)} on other data"


def _timed(view: Exported, runs: dict[str, Run], data: list[Any]) -> dict[str, float]:
    """Return the latencies of all that run on these data; who does not, says why."""
    sound = {}
    for name, run in runs.items():
        try:
            run([a.copy() for a in data])
            sound[name] = run
        except Exception as error:
            for target in view.targets:
                if target.name == name:
                    export_targets.failed(target, error)
    return export_targets.latencies(sound, data)


def _shapes(program: Any, sizes: dict[str, int]) -> str:
    if sizes:
        return ", ".join(f"{name} {n}" for name, n in sizes.items())
    return ", ".join("×".join(str(evaluate(d, sizes)) for d in v.shape) or "a number" for v in program.inputs)
