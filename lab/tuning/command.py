"""`%tune KERNEL SHAPE DTYPE` and ``python -m lab tune``: a kernel's configs compared at a shape; the result in words.

``%tune matmul_f32 512x512x512 float32 --budget 30s`` measures a C kernel of the tuner's own on this processor, which
no op runs; ``%tune softmax_kernel 4096x1024 float16`` measures the GPU's Triton kernel, or without a GPU compiles it
for ``--target sm_90`` and estimates.
"""

from __future__ import annotations

import argparse
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NoReturn

from core.backends import cuda
from core.declare import op
from core.declare.expr import triton_lines
from core.optim import updates  # noqa: F401 - they are declared
from core.optim.kernels import triton_kernel
from core.optim.update import table
from triton_kernels.primitives import PRIMITIVES
from triton_kernels.tune import events as ev
from triton_kernels.tune import problem as problems
from triton_kernels.tune import strategy as strategies
from triton_kernels.tune import triton_problems
from triton_kernels.tune.c_kernels import FAMILIES
from triton_kernels.tune.final import look_anew
from triton_kernels.tune.fronts import refuse
from triton_kernels.tune.measure import Failed
from triton_kernels.tune.session import Session, seconds_of
from triton_kernels.tune.store import Store
from triton_kernels.tune.triton_problems import Printed, PrintedUpdate
from widgets.figures import time_text
from widgets.training import Training, seconds_text

from ..console.options import Parser, meant
from ..console.progress import Screen
from . import import_export, programs, shown
from .config_text import words
from .session_view import front, headline, taken_ms, verdict

USAGE = (
    "%tune KERNEL SHAPE DTYPE [--budget 60s] [--target sm_90] [--strategy portfolio] [--evaluations N] [--fresh] "
    "[--wait]"
)


AXES = """HEADS are batches x heads, PLANES images x channels, PLACES height x width of what is written, TAPS those of
the window, SLICES as many as are moved, INNER what lies side by side, ITEMS all elements; of TENSORS, those of each."""

OWN = "this is a C kernel of the tuner's own; your cells' ops run BLAS or core's C, and stay as fast as they are."


class Wrong(ValueError):
    """A command that cannot be run; the message says why and what could be."""


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        usage = "%%tune --help shows its options, %%tune alone whole cells" if self.prog == "%%tune" else USAGE
        raise Wrong(f"{message}\n{usage}")


def parser(prog: str = "%tune", kernel: bool = True) -> argparse.ArgumentParser:
    """Return the grammar of the command."""
    example = f"{prog} core_softmax 4096x1024 float32 --budget 30s"
    if not kernel:
        about = "%%tune tunes the Triton kernel, or the C function, that its cell defines beside a reference."
        made = _Parser(
            prog="%%tune", description=about, example="%%tune --budget 30s   (alone: whole cells to begin with)"
        )
        made.set_defaults(kernel="", shape="", dtype="")
        made.add_argument("--language", choices=("python", "c"), help="of the cell, where it is not plain")
        made.add_argument("--args", default="", help="of a C function, where its parameters' names are no variables")
        made.add_argument("--reference", default="reference", help="what a C function should compute, in Python")
        made.add_argument("--configs", help="of a C function: a dict of lists, in place of its // tune: lines")
        made.add_argument("--function", help="which C function, where it is not the cell's last")
        return _shared(made, prog)
    made = _Parser(prog=prog, description=__doc__.replace("`", ""), example=example)
    made.add_argument("--list", action="store_true", help="name the kernels, each with the shape that it takes")
    about = "such as matmul_f32 or softmax_kernel; --list names them. Or a program and a kernel that it launches, with "
    made.add_argument("kernel", metavar="KERNEL", help=f"{about}no shape: train.py:add_kernel")
    made.add_argument("shape", metavar="SHAPE", nargs="?", default="", help="sizes with x between them: 4096x1024")
    made.add_argument("dtype", metavar="DTYPE", nargs="?", default="", help="float16, bfloat16, float32 or float64")
    made.add_argument("--use", metavar="CONFIG", help='no search: choose a config that was measured, "BLOCK=256 ..."')
    return _shared(made, prog)


def _shared(made: argparse.ArgumentParser, prog: str) -> argparse.ArgumentParser:
    """Return the options that `%tune` and `%%tune` share."""
    made.add_argument("--budget", default="60s", help="how long: 30s, 5m (60s)")
    made.add_argument("--target", help="for Triton kernels: cuda, or an architecture to compile for, such as sm_90")
    made.add_argument("--strategy", default="portfolio", help=", ".join(strategies.names()) + " (portfolio)")
    made.add_argument("--evaluations", type=int, help="try at most so many configs")
    made.add_argument("--tolerance", type=float, help="the error allowed, relative to the result's size")
    made.add_argument("--objective", default="time", help="beside time: accuracy, memory or energy (time)")
    made.add_argument("--fresh", action="store_true", help="do not take over what earlier runs have measured")
    judged = "of a program: run again with each config that one launch finds wrong, its result compared"
    made.add_argument("--judge-by", dest="result_of", metavar="FUNCTION", help=judged)
    if prog == "%tune":
        made.add_argument("--wait", action="store_true", help="give the prompt back at the end, not at once")
    return made


def tune(words: Sequence[str], prog: str = "%tune", show: bool | str = True, store: Store | None = None) -> ev.Result:
    """Run the command to its end. *Raises*: Wrong for a command that cannot be run."""
    options, problem = understood(words, prog)
    with store or Store() as kept:
        session = session_of(options, problem, kept)
        watch(session, show)
    assert session.result is not None
    return session.result


def understood(words: Sequence[str], prog: str = "%tune") -> tuple[argparse.Namespace, problems.Problem]:
    """Return the options of a command, and the problem it names. *Raises*: Wrong for a command that cannot be run."""
    options = parser(prog).parse_args(list(words))
    try:
        _sound(options)
        if programs.names_a_file(options.kernel):
            if options.shape:
                raise Wrong(f"{options.kernel} has the shapes that it is launched with; came besides: {options.shape}")
            cuda.availability()  # connects the GPU, if there is one
            problem = programs.problem_of(options.kernel, options.target, options.tolerance, options.result_of)
            refuse(options.objective, problem.measure.kind)
            return options, problem
        if not options.shape or not options.dtype:
            raise Wrong(
                f"the following arguments are required: {'DTYPE' if options.shape else 'SHAPE, DTYPE'}\n{USAGE}"
            )
        if options.tolerance is not None:
            raise Wrong("--tolerance is for a program's kernels, as in train.py:add_kernel, and %%tune: kernels that "
                        "are known by name have their own")  # fmt: skip
        problem = find(options.kernel, options.shape, options.dtype, options.target)
        refuse(options.objective, problem.measure.kind)
    except ValueError as error:
        raise Wrong(str(error)) from None
    return options, problem


def options_of(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of `%%tune`, which names no kernel: its cell does. *Raises*: Wrong."""
    options = parser("%tune", kernel=False).parse_args(list(words))
    _sound(options)
    return options


def _sound(options: argparse.Namespace) -> None:
    """*Raises*: ValueError for options that cannot be."""
    seconds_of(options.budget)
    if options.strategy not in strategies.names():
        near = meant(options.strategy, strategies.names())
        raise ValueError(
            f"no strategy is named {options.strategy!r}{near or ';'} there are {', '.join(strategies.names())}"
        )
    if options.evaluations is not None and options.evaluations < 1:
        raise ValueError(f"--evaluations is at least 1; came: {options.evaluations}")


def session_of(options: argparse.Namespace, problem: problems.Problem, store: Store) -> Session:
    """Return the session that the options ask for."""
    return Session(problem, budget=options.budget, evaluations=options.evaluations, strategy=options.strategy,
                   store=store, resume=not options.fresh, objective=options.objective)  # fmt: skip


def find(kernel: str, shape: str, dtype: str, target: str | None) -> problems.Problem:
    """Return a kernel of the tuner's, or one that core prints: of an elementwise op (``tanh_kernel``) or an
    optimizer's step (``adamw_step_kernel``). *Raises*: problem.Unknown."""
    cuda.availability()  # connects the GPU, if there is one
    try:
        return problems.find(kernel, shape, dtype, target)
    except problems.Unknown:
        printed = _printed(kernel) if kernel not in problems.known() and kernel.endswith("_kernel") else None
        if printed is None:
            raise
    return triton_problems.problem(kernel, problems.parse_shape(shape), dtype, target, printed)


def _printed(kernel: str) -> Any:
    """Return the kernel of that name which core prints, of an elementwise op or of an optimizer's step; or None."""
    for declared in [d for d in op.table.values() if isinstance(d, op.Elementwise)]:
        for program in declared.programs:
            if f"{program.name}_kernel" == kernel:
                lines, result = triton_lines(program, PRIMITIVES)
                bools = tuple(n for n, k in zip(program.inputs, program.kinds, strict=True) if k == "bool")
                values = tuple(float(declared.params.get(n) or 0.5) for n in program.params)
                return Printed(program.name, tuple(program.inputs), tuple(program.params), tuple(lines), str(result),
                               "bool" if program.is_bool else "same", bools, values, declared.domain[0])  # fmt: skip
    for form in [v for update in table.values() for v in update.variants.values()]:
        if f"{form.name}_kernel" == kernel:
            made = triton_kernel(form)
            return PrintedUpdate(made.name, made.arrays, made.params, made.lines, made.results)
    return None


def use(problem: problems.Problem, text: str) -> str:
    """Make a config that was measured the choice for a kernel's shape; what was done, in a sentence.

    It is checked as those of a final are. *Raises*: Wrong for a config that the space does not have, or that was not
    measured, or is wrong.
    """
    given = dict(pair.partition("=")[::2] for pair in text.split())
    names = {t.name: {str(v): v for v in t.values} for t in problem.space.tunables}
    try:
        config = problem.space.complete({n: names[n][v] for n, v in given.items()})
    except (KeyError, ValueError) as error:
        known = "; ".join(f"{n}: {', '.join(values)}" for n, values in names.items())
        why = f"{error.args[0]!r} is none of its values" if isinstance(error, KeyError) else str(error)
        raise Wrong(
            f"--use {text!r} is no config of {problem.kernel}: {why}. Remedy: --use {words(problem.space.default)!r}, "
            f"with other values of its tunables: {known}"
        ) from None
    if problem.measure.estimate:
        raise Wrong(f"--use: {problem.kernel} was estimated, not measured, and estimates are not stored")
    with Store() as kept:
        trials = [t for t in kept.trials(problem.key) if t["config"] == config]
        measured = [t for t in trials if t["status"] == "correct" and t.get("ratio")]
        if not measured:
            reason = trials[-1].get("reason") if trials else "it was not tried"
            raise Wrong(
                f"--use: {words(config)} has no time at this shape: {reason}. Remedy: %tune without --use first"
            )
        try:
            look_anew(problem, config)  # when it was tried, it was checked once, and here alone
        except Failed as failure:
            raise Wrong(f"--use: {words(config)} is not right each time and at each shape: {failure}") from None
        ratio = measured[-1]["ratio"]
        session = kept.begin(problem.key, {}, "by hand")
        kept.win(problem.key, session, {"config": config, "ratio": ratio, "low": ratio, "high": ratio, "ties": []})
        kept.conclude(problem.key, session, {"verdict": "by hand", "config": config, "ratio": ratio, "low": ratio,
                                             "high": ratio, "seconds": 0.0})  # fmt: skip
        where = kept.where
    return (
        f"{words(config)} is the choice now, at {ratio:.3f} of the default's time when it was tried; stored in {where}"
    )


# -- while it runs -----------------------------------------------------------------------------------------------------


def watch(session: Session, show: bool | str = True, heard: Callable[[ev.Event], None] = lambda event: None) -> None:
    """Run a session in a thread and draw how it goes on; an interrupt stops it, and its result still comes.

    heard : gets every event.
    """
    happened: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run() -> None:
        try:
            for event in session:
                happened.put(event)
        except BaseException as error:
            happened.put(error)

    thread = threading.Thread(target=run, name="gradlab tuner", daemon=True)
    view = _View(session, Screen(show))
    thread.start()
    interrupts = 0
    while True:
        try:
            event = happened.get(timeout=0.2)
        except queue.Empty:
            view.tick()
            continue
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > 1:  # whoever asks twice does not want to wait for the final
                session.stop()
                view.end("interrupted")
                raise
            session.stop()
            view.state = "stopped"
            continue
        if isinstance(event, BaseException):
            view.end("failed")
            raise event
        heard(event)
        view.take(event)
        if isinstance(event, ev.Finished):
            thread.join()
            failed, stopped = event.result.verdict == "failed", event.result.ended == "stopped"
            view.end("failed" if failed else "stopped" if stopped else "done")
            return


class _View:
    """What is drawn of a session."""

    def __init__(self, session: Session, screen: Screen) -> None:
        self.session, self.screen, self.state = session, screen, "running"
        self.began = perf_counter()
        self.counts = {"right": 0, "rejected": 0, "merged": 0}
        self.best: float | None = None
        self.default: float | None = None
        self.ratio = 1.0
        self.doing = "starting"
        self.told = 0.0  # when a log was last told of progress

    def take(self, event: ev.Event) -> None:
        """Take an event in, and draw if it is time."""
        if isinstance(event, ev.Measured):
            self.counts["merged" if event.same_as else "right"] += 1
            self.doing = "searching"
            if self.default is None:
                self.default = event.time_ms
        elif isinstance(event, ev.Rejected):
            self.counts["rejected"] += 1
        elif isinstance(event, ev.Improved):
            self.best, self.ratio = event.time_ms, event.ratio
            if self.screen.way == "lines" and perf_counter() - self.told > 1.0:  # a log has no line that changes
                self.told = perf_counter()
                so_far = f"{seconds_text(self.session.spent_s)} · {sum(self.counts.values()):,} tried"
                self.screen.say(f"{so_far} · {event.ratio:.3f} of the default: {words(event.config)}")
        elif isinstance(event, ev.Stopped):
            self.doing = "final"
        elif isinstance(event, ev.Started) and event.resumed:
            self.screen.say(f"{event.resumed} trials of earlier runs are taken over")
        self.tick()

    def tick(self) -> None:
        """Draw if it is time."""
        if self.screen.due():
            self.screen.draw(self.view(self.state))

    def end(self, state: str) -> None:
        """Draw for the last time."""
        self.screen.draw(self.view(state), final=True)

    def view(self, state: str) -> Training:
        """This moment as plain data."""
        spent, problem = perf_counter() - self.began, self.session.problem
        budget, tried = self.session.budget_s, sum(self.counts.values())
        guessed = problem.measure.estimate  # compiled for a target that is not here: nothing is timed
        figures = []
        if self.default is not None:
            figures = [("default, estimated" if guessed else "default", time_text(self.default))]
        if state != "running" and (ended := self.session.result) is not None:
            figures = _told(ended)
        elif (
            self.best is not None
        ):  # the ratio was taken side by side; the default's time of the beginning may be stale
            of = "the default's, estimated" if guessed else "the default"
            figures = [("best", f"{self.ratio:.2f} of {of} ({time_text(self.best)})")]
        figures += [(name, str(n)) for name, n in self.counts.items() if n and name != "right"]
        title = f"{'Tuning' if state == 'running' else 'Tuned'} {problem.kernel} {'x'.join(map(str, problem.shape))}"
        timing = f"{self.doing} · {seconds_text(spent)}" if state == "running" else seconds_text(spent)
        share = min(spent / budget, 1.0) if budget else tried / len(self.session.table)
        place = f"{tried:,} of {len(self.session.table):,} configs"
        return Training(title=title, state="running" if state == "running" else state, place=place,
                        done=1.0 if state == "done" else share, timing=timing, figures=figures)  # fmt: skip


def _told(result: ev.Result) -> list[tuple[str, str]]:
    """Return the figures of a session that has ended: what its verdict says, and not what its search believed."""
    guessed = ", estimated" if result.estimate else ""
    figures = [(f"default{guessed}", time_text(result.default.time_ms))] if result.default else []
    return [*figures, ("result", headline(result))] if result.best is not None else figures


# -- what came of it ---------------------------------------------------------------------------------------------------


def _own(kernel: str) -> bool:
    """Return whether a kernel is one of the tuner's own in C, which no op of core's runs."""
    return kernel in {f"{family}_{suffix}" for family in FAMILIES for suffix in ("f32", "f64")}


def describe(result: ev.Result) -> str:
    """Return the result in words: best against default with the interval, the top five, what was rejected and why,
    where it is kept."""
    shape = "x".join(map(str, result.shape))
    estimated = "estimated for" if result.estimate else "on"
    lines = [f"{result.kernel} {shape} {result.dtype}, {estimated} {result.device}"]
    if result.estimate:
        lines.append("No time was measured: these are ESTIMATES from what the compiled kernels occupy.")
    if _own(result.kernel):
        lines.append(f"Note: {OWN}")
    lines += [f"Note: {note}" for note in result.notes]
    lines += verdict(result)
    if result.top:
        lines += ["", f"  {'of default':>10} {'95 % interval':>15} {'time':>9}  config"]
        for place in result.top:
            between = "estimate" if result.estimate else f"{place.low:.3f} to {place.high:.3f}"
            mark = " (default)" if result.default and place.config == result.default.config else ""
            time = time_text(taken_ms(result, place))
            lines.append(f"  {place.ratio:10.3f} {between:>15} {time:>9}  {words(place.config)}{mark}")
            if "registers" in place.facts:
                lines.append(f"  {'':36}  {_facts(place.facts)}")
    if (other := result.vendor) is not None:
        between = f"{other.low:.3f} to {other.high:.3f}"
        lines.append(
            f"  {other.ratio:10.3f} {between:>15} {time_text(taken_ms(result, other)):>9}  vendor: {other.name}"
        )
    if result.ties:
        lines.append(f"Tied with the first: {len(result.ties)} of these cannot be told from it.")
    lines += front(result)
    if result.rejected:
        lines += ["", f"Rejected: {sum(result.rejected.values())}"]
        lines += [f"  {n:4d}  {reason}" for reason, n in result.reasons]
    counted = f"{result.evaluations:,} of {result.space_size:,} configs tried in {seconds_text(result.seconds)}"
    more = [f"{result.resumed:,} known from earlier runs"] if result.resumed else []
    more += [f"{result.merged:,} with a binary already seen"] if result.merged else []
    lines += ["", ", ".join([counted, *more]) + f" ({result.strategy}; ended: {result.ended})"]
    if result.stored and result.verdict in ("faster", "default") and _own(result.kernel):
        lines.append(f"Stored: {result.stored}; triton_kernels.tune.c_kernels.run takes it at this shape; no op does.")
    elif result.stored and result.verdict in ("faster", "default"):
        lines.append(f"Stored in {result.stored}; later runs at this shape take it.")
    elif result.stored:
        lines.append(f"The trials are stored in {result.stored}; no choice was made.")
    else:
        lines.append("Not stored: estimates are not kept as results." if result.estimate else "Not stored.")
    return "\n".join(lines)


def _facts(facts: dict[str, Any]) -> str:
    spilled = f", spills {facts['spill_bytes']} bytes" if facts["spill_bytes"] else ""
    return (f"{facts['registers']} registers, {facts['shared_bytes']:,} bytes shared{spilled}, "
            f"occupancy {facts['occupancy']:.0%} (limit: {facts['limited_by']})")  # fmt: skip


# -- the command line --------------------------------------------------------------------------------------------------


def listing() -> str:
    """Return the kernels that can be tuned by name."""
    rows = [problems.listed(problems.known())]
    rows += ["  ITEMS, in Triton, printed from any elementwise op", "    such as tanh_kernel  gelu_erf_kernel"]
    rows += ["  TENSORSxITEMS, in Triton, printed from any optimizer's step", "    such as adamw_step_kernel"]
    return "\n".join([USAGE, *shown.USAGE, "", "KERNEL by the SHAPE that it takes:", *rows, "", AXES])


def main(argv: list[str]) -> int:
    """``python -m lab tune``: 0 with a result, 2 for a command that cannot be run, 1 where the default is wrong."""
    if argv and argv[0] in ("export", "import"):
        return import_export.main(argv)
    if argv and argv[0] in shown.COMMANDS:
        return shown.main(argv)
    if argv in ([], ["--list"]):
        print(listing().replace("%tune", "python -m lab tune"))
        return 0 if argv else 2
    try:
        options, problem = understood(argv, "python -m lab tune")
        if options.use is not None:
            print(use(problem, options.use))
            return 0
        result = tune(argv, "python -m lab tune")
    except Wrong as error:
        print(f"lab: {str(error).replace('%tune', 'python -m lab tune')}", file=sys.stderr)
        return 2
    print(describe(result))
    return 1 if result.verdict == "failed" else 0
