"""The notebook's side: `%%autograd` shows a card under a cell, `%autograd on|off` under every cell.

The first line of a cell is rewritten to a line magic on the same line, and hooks around the cell do the rest. So the
cell runs exactly as it would without: names, last value, inner magics, top-level await, tracebacks, line numbers.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, line_magic, magics_class, no_var_expand
from IPython.display import publish_display_data

import core
import widgets
from core.base import shadowing, source
from core.base.pytorch import pytorch
from widgets import Record, compare

from ..console.options import HELP, meant
from ..recorder.sampled_steps import CLOSE
from ..report import peaks, run_changes
from ..report.run_inputs import described
from ..session.op_counts import Counter
from ..session.recording import Recording, error_row
from . import card_buttons, export_magic, tracebacks, try_button
from .inner_cell import run_inside
from .live_card import LiveCard
from .op_magics import OpMagics
from .ranks_magic import RankMagics
from .shrink_magic import ShrinkMagics
from .tool_magics import ToolMagics
from .try_magic import Trying

FLAGS = {
    "--text": "show the card as text alone",
    "--check": "compare the gradient of every op with finite differences",
    "--precision": "run every op once more in float64, and name the line that loses digits",
    "--whole": "record every step of a long loop; without it some are, once two seconds have passed",
    "--try": "run the cell again with each remedy, in a fenced copy from before it, and say what it did",
    "--no-card": "record and show nothing; lab.last() has the record",
}
USAGE = f"""%%autograd [options], as the first line of a cell: its graph, gradients and timings, and what is wrong

{chr(10).join(f"  {flag:10}  {what}" for flag, what in FLAGS.items())}
  --help      this; the cell is not run

%autograd on      a card under every cell; of a loop's many steps some are recorded
%autograd count   one line under every cell
%autograd off     neither; %autograd alone says which

example:
  %%autograd --check
  loss = model(x).square().mean()
  loss.backward()"""
MAGICS = ["as_torch", "autograd", "ckernel", "dataload", "export", "gpustat", "ranks", "shrink", "triton", "tune"]
LASTS = 32  # cells whose last record is kept for comparison
_publish: Callable[..., None] = publish_display_data
_TAKES_A_CELL = re.compile(r"%%(time|capture)\b")
_EMPTY = re.compile(r"%%(tune|ckernel|triton)(?![\w?])([^\n]*)\s*")
_FIRST_LINE = re.compile(r"%%autograd(?![\w?])([^\n]*)")


def rewrite(lines: list[str]) -> list[str]:
    """Input transformer: ``%%autograd ARGS`` becomes ``%autograd --cell ARGS``, the number of lines as it was.

    A cell that asks for help is not run, and an empty ``%%tune``, ``%%ckernel`` or ``%%triton``, which IPython refuses,
    gets its examples.

    >>> rewrite(["%%autograd --text\\n", "x = 1\\n"])
    ['%autograd --cell --text\\n', 'x = 1\\n']
    """
    if lines and (found := _EMPTY.fullmatch("".join(lines))):
        return [
            f"get_ipython().run_cell_magic({found.group(1)!r}, {found.group(2).strip()!r}, '\\n')\n",
            *["\n"] * (len(lines) - 1),
        ]
    if lines and (found := _FIRST_LINE.match(lines[0])) and set(HELP) & set(found.group(1).split()):
        return ["%autograd --cell --help\n", *["\n"] * (len(lines) - 1)]
    if lines and (found := _FIRST_LINE.match(lines[0])):
        begin = f"%autograd --cell{found.group(1)}\n"
        if len(lines) > 1 and _TAKES_A_CELL.match(lines[1]):
            return [lines[1], begin, *lines[2:]]  # a cell magic must come first; what it runs begins with ours
        return [begin, *lines[1:]]
    return lines


rewrite.has_side_effects = False  # type: ignore[attr-defined]


def flags_of(line: str) -> set[str]:
    """Return the flags of a magic's line.

    *Raises*: UsageError, one line that names what there is.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%autograd: {error}") from None
    unknown = [word for word in words if word not in FLAGS and word != "--cell"]
    if unknown:
        kind = "flag" if unknown[0].startswith("-") else "argument"
        near = meant(unknown[0], FLAGS)
        raise UsageError(f"%%autograd: unknown {kind} {unknown[0]}{near or ';'} it takes {', '.join(FLAGS)}")
    return set(words)


@magics_class
class LabMagics(Magics):
    """`%%autograd` and `%autograd`."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.auto = "off"  # what every cell gets: a card ("on"), a line of counts ("count") or nothing
        self.counter: Counter | None = None
        self.infos: list[Any] = []  # of the cells that run now, one inside the other
        self.recording: Recording | None = None
        self.files: dict[str, int] = {}
        self.flags: set[str] = set()
        self.trying: Trying | None = None
        self.live: LiveCard | None = None
        self.inputs: dict[str, str] = {}  # what the cell reads, as it was before it ran
        self.asked = False
        self.depth = 0
        self.raised_ns = 0  # when a traceback was drawn last
        self.untold: Callable[[], None] = lambda: None  # takes back what tells of statements
        self.alias: core.as_torch | None = None  # while `torch` is core
        self.lasts: dict[str, Record] = {}  # the last record of each cell

    # -- what the user calls -------------------------------------------------------------------------------------------

    @line_magic
    def autograd(self, line: str) -> None:
        """Show a card under every cell that runs ops, or a line.

        ``%autograd on``     a card under every cell; of a training loop the first steps are recorded and then some now
                             and then, so that it takes hardly longer
        ``%autograd count``  one line under every cell: its ops, backward passes and steps, and what is plainly amiss;
                             nothing listens to the ops, so that they run as fast as without
        ``%autograd off``    neither; ``%autograd`` alone says which
        """
        words = line.split()
        if set(HELP) & set(words):
            print(USAGE)
        elif "--cell" in words:
            self.flags = flags_of(line)
            self.asked = True
            self.guarded(self.begin)
        elif not words:
            print(f"autograd: cards are {self.auto}; %autograd on, count or off, %%autograd for one cell")
        elif words in (["on"], ["off"], ["count"]):
            self.auto, self.counter = words[0], None
            if self.auto != "on" and not self.asked:
                self.drop()
        else:
            flags, near = ", ".join(FLAGS), meant(words[0], ("on", "count", "off"))
            raise UsageError(
                f"%autograd: {line.strip()!r} is none of on, count and off{near or ';'} "
                f"%%autograd, for one cell, takes {flags}"
            )

    @cell_magic("autograd")  # type: ignore[arg-type]
    def autograd_cell(self, line: str, cell: str) -> None:
        """Show under this cell its graph, its gradients and its timings, and what is wrong and on which line.

        ``%%autograd [--text] [--check] [--precision] [--whole] [--try] [--no-card]``

        --text     show the card as text alone
        --check    compare the gradient of every op with finite differences, and name those that are wrong
        --precision  run every op once more in float64, and name the line that loses half its digits
        --whole    record every step of a long loop; without it some are, once two seconds have passed
        --try      run the cell again with each remedy, in a fenced copy from before it, and say what it did
        --no-card  record and show nothing; lab.last() has the record
        """
        flags_of(line)
        run_inside(self.shell, f"%%autograd {line}\n{cell}")

    @line_cell_magic
    def tune(self, line: str, cell: str | None = None) -> None:
        """Find the fastest config of a kernel at a shape, and keep it for all later runs. Alone it lists the kernels.

        ``%tune KERNEL SHAPE DTYPE [--budget 60s] [--target sm_90] [--strategy portfolio] [--evaluations N] [--fresh]``

        ``%tune core_softmax 4096x1024 float32``       a C kernel that the ops run on this processor
        ``%tune softmax_kernel 4096x1024 float16``     the GPU's Triton kernel; without a GPU it is compiled for
                                                     --target and estimated
        ``%tune matmul_f32 512x512x512 float32``       a C kernel of the tuner's own, with thousands of configs to try

        A card names the command for each of its kernels: open its row under Timings, By kernel.

        A panel shows how it goes on, with Pause and Stop; other cells run meanwhile.
        ``lab.notebook.panel.latest.wait()`` waits for the result. What was measured is kept: the same line again goes
        on where it was, unless --fresh is given. --wait keeps the prompt until the end; --evaluations N tries at most
        N configs; --use "BLOCK=256 ..." searches nothing and chooses a config that was measured.

        ``%%tune`` on a cell tunes the `@triton.jit` kernel that the cell defines, or the C function that stands there:
        ``#define TILE 8  // tune: 4, 8, 16`` in it says what may vary, its parameters are the notebook's variables of
        their names (or ``--args "n=x.size"``), ``reference`` (or ``--reference NAME``) says what it should compute,
        and the function is there to be called from then on. ``%%tune`` on an empty cell shows examples of both.
        """
        shadowing.check("triton_kernels")
        from . import tune_magic

        if cell is not None:
            tune_magic.tune_cell(self.shell, line, cell)
            return
        tune_magic.tune_line(line)

    @line_magic
    def as_torch(self, line: str) -> None:
        """Let ``import torch`` give core in this notebook: for packages that are written for PyTorch.

        ``%as_torch``      from now on; PyTorch's own random numbers are drawn
        ``%as_torch off``  no more; packages imported meanwhile stay on core
        """
        words = line.split()
        if words not in ([], ["on"], ["off"]):
            raise UsageError(f"%as_torch: {line.strip()!r} is neither on nor off")
        if self.alias is not None and words == ["off"]:
            self.alias.__exit__(None, None, None)
            self.alias = None
        elif self.alias is None and words != ["off"]:
            if pytorch() is not None:
                print("PyTorch is imported in this notebook: what was made of it stays PyTorch's.")
            self.alias = core.as_torch()
            print(f"import torch gives core {core.__version__}, in the meaning of PyTorch {core.version.MEANING}")

    @no_var_expand
    @line_cell_magic
    def export(self, line: str, cell: str | None = None) -> None:
        """Write a function or a module for others, and show what became of it.

        ``%export CALL [--dynamic x:0=batch,1=time] [--to numpy,c,onnx,gl] [--out FOLDER] [--name NAME]``

        ``%export model(x) --dynamic x:0=batch --out folder``   CALL is a call on example arguments, as one writes it

        The card has the program beside its source, and of each form its size, its latency beside the eager call's and
        its largest error on other data; or why there is none. ``%%export`` runs its cell first.
        """
        if cell is not None and not set(HELP) & set(line.split()):
            run_inside(self.shell, cell)
        export_magic.export_line(line, self.shell.user_ns, lambda bundle: _publish(bundle))

    # -- around a cell -------------------------------------------------------------------------------------------------

    def before(self, info: Any) -> None:
        """Hook: a cell is about to run."""
        self.infos.append(info)
        if len(self.infos) == 1:
            self.guarded(try_button.another_cell)
        if self.auto == "on" and self.recording is None:
            self.guarded(self.begin, True)
        elif self.auto == "count" and len(self.infos) == 1:
            self.guarded(self.begin_counting)

    def ended(self) -> None:
        """Hook: the code of a cell has come to its end; what draws its plots follows."""
        if self.recording is not None:
            self.recording.ended_ns = perf_counter_ns()

    def raising(self) -> None:
        """Hook: a traceback is about to be drawn, which may take longer than the cell."""
        self.raised_ns = perf_counter_ns()

    def after(self, result: Any) -> None:
        """Hook: a cell has run, well or not."""
        while self.infos and self.infos.pop() is not result.info:
            pass
        counter = self.counter
        if not self.infos:
            self.counter = None
        if self.recording is not None and len(self.infos) < self.depth:
            self.guarded(self.show, result)
        elif counter is not None and not self.infos:
            self.guarded(self.count, counter)

    def guarded(self, work: Callable[..., None], *args: Any) -> None:
        """No failure of the lab may break the user's cell: it is told in one line."""
        try:
            work(*args)
        except Exception as error:
            self.drop()
            said = (str(error).splitlines() or [""])[0]
            why = f"{type(error).__name__}: {said}"
            print(f"autograd: no card for this cell ({why}); the cell itself ran as always.", file=sys.stderr)

    def begin(self, sampled: bool = False) -> None:
        """Start recording the cell that is running; where it is not asked for by name, few of a loop's many steps."""
        if self.recording is not None:
            return
        self.depth = len(self.infos)
        self.files = self.cell_files(self.infos[-1]) if self.infos else {}
        if "--try" in self.flags:
            self.trying = Trying(self.shell)
        elif not {"--text", "--no-card"} & self.flags and card_buttons.message_of_cell() is not None:
            self.trying = try_button.Offer(self.shell)
        self.recording = Recording(
            check="--check" in self.flags,
            precision="--precision" in self.flags,
            sampled=sampled or ("--whole" not in self.flags and CLOSE),
        )
        self.inputs = self.read_by(self.infos[-1]) if self.infos else {}
        self.recording.start(self.files)
        if self.recording.steps is not None:
            self.tell_statements(self.recording.steps)
        if self.recording.course is not None and not {"--no-card", "--text"} & self.flags:
            stored = bool(self.infos and self.infos[-1].store_history)
            title = f"In [{self.shell.execution_count - stored}]"
            self.live = LiveCard(self.shell, self.recording.course, self.files, title)
            self.live.start()

    def tell_statements(self, steps: Any) -> None:
        """Tell where the cell comes to another of its statements, which IPython runs one by one."""
        shell, run = self.shell, self.shell.run_code
        if "run_code" in vars(shell):
            return  # another extension's, or ours of a cell around this one

        def run_code(*args: Any, **kwargs: Any) -> Any:
            try:
                steps.statement()
            except Exception as error:
                steps.failed(error)
            return run(*args, **kwargs)

        def untold() -> None:
            if vars(shell).get("run_code") is run_code:
                del shell.run_code

        shell.run_code, self.untold = run_code, untold

    def begin_counting(self) -> None:
        """Start counting for the cell that is running."""
        self.counter = Counter(self.shell.user_ns)

    def count(self, counter: Counter) -> None:
        """Say in a line what a cell did."""
        counts = counter.stop(self.shell.user_ns)
        if counts:
            print(counts)

    def drop(self) -> None:
        """End a recording without a card."""
        self.untold()
        recording, self.recording = self.recording, None
        if self.live is not None:
            self.live.stop()
            self.live = None
        trying, self.trying = self.trying, None
        self.asked, self.flags = False, set()
        if trying is not None:
            trying.close()
        if recording is not None:
            recording.drop()

    def cell_files(self, info: Any) -> dict[str, int]:
        """Return the file names that the cell's code goes by, with how many lines the notebook shows above its
        first."""
        raw = info.raw_cell
        lines = raw.split("\n")
        blank = next((i for i, text in enumerate(lines) if text.strip()), 0)
        transformed = getattr(info, "transformed_cell", None) or self.shell.transform_cell(raw)
        count = self.shell.execution_count - (1 if info.store_history else 0)
        files = {self.shell.compile.get_code_name(raw, transformed, count): blank}
        if any(line.startswith("%%time") for line in lines[blank : blank + 2]):
            files["<timed exec>"] = blank + 1
        return files

    def read_by(self, info: Any) -> dict[str, str]:
        """Return what the cell reads, as it is before it runs."""
        try:
            return described(self.shell.transform_cell(info.raw_cell), self.shell.user_ns)
        except Exception:  # the next run is compared without it
            return {}

    def show(self, result: Any) -> None:
        """End the recording of a cell and show its card."""
        self.untold()
        recording, flags, asked = self.recording, self.flags, self.asked
        assert recording is not None
        live, self.live = self.live, None
        if live is not None:
            live.stop()
        self.asked, self.flags = False, set()
        if result.error_in_exec is not None:
            recording.ended_ns = self.raised_ns
        if result.execution_count is not None:
            recording.title = f"In [{result.execution_count}]"
        error = result.error_in_exec or result.error_before_exec
        if isinstance(error, UsageError):
            self.drop()
            return
        # until it has stopped it is ours to drop: `guarded` does so where this fails
        record = recording.stop(self.shell.user_ns, result.info.raw_cell, error_row(error, self.files), error)
        self.recording = None
        if recording.error is not None:
            raise RuntimeError(recording.failure()) from recording.error
        trying, self.trying = self.trying, None
        if trying is not None:
            trying.finish(record, result.info.raw_cell)
        if record.course is not None:
            record.course.inputs = self.inputs
            if live is not None and live.error is not None:
                record.course.note += f" The card did not follow to the end: {type(live.error).__name__}: {live.error}"
        self.compared(result.info, record)
        if record.error is not None:
            record.wall_ms = record.recording_ms = (
                0.0  # in it IPython has drawn the traceback, which may take longer than the cell
            )
        if "--no-card" in flags or not (asked or record.ops or record.backward_ms):
            return
        plain = {"text/plain": widgets.text(record)}
        if "--text" in flags:
            _publish(plain)
            return
        peaks.add(record)
        try:
            place = card_buttons.place()
            offered = isinstance(trying, try_button.Offer) and trying.show(place)
            asks = offered or any(row.tune for row in record.kernels)
            bundle = {"text/html": widgets.html(record, place if asks else ""), **plain}
        except Exception:
            self.publish(plain, live)  # the text says as much; why there is no picture is told after it
            raise
        self.publish(bundle, live)
        if asks:
            card_buttons.connect()

    def publish(self, bundle: dict[str, str], live: LiveCard | None) -> None:
        """Show a card, in the place of the one that was there while the cell ran."""
        _publish(bundle, **(live.place if live is not None else {}))

    def compared(self, info: Any, record: Record) -> None:
        """Put the difference to the last run of the same cell into its record."""
        cell = getattr(info, "cell_id", None)
        if not cell:
            return
        last = self.lasts.pop(cell, None)
        if last is not None:
            run_changes.beside(last, record)
        if last is not None and not (last.error or record.error or last.stopped or record.stopped):
            record.comparison = compare(last, record)
        self.lasts[cell] = record
        if len(self.lasts) > LASTS:
            del self.lasts[next(iter(self.lasts))]


def load(shell: Any) -> None:
    """Register the magics, the transformer and the hooks; once, however often it is called."""
    if getattr(shell, "_gradlab", None) is not None:
        return
    magics = LabMagics(shell)
    shell.register_magics(magics, OpMagics(shell), RankMagics(shell), ShrinkMagics(shell), ToolMagics(shell))
    shell.input_transformers_cleanup.append(rewrite)
    shell.events.register("pre_run_cell", magics.before)
    shell.events.register("post_run_cell", magics.after)
    shell.events.callbacks["post_execute"].insert(0, magics.ended)  # before what draws a cell's plots
    was = source.name_of_file

    def name_of_file(filename: str) -> str | None:
        if filename == "<%export>":  # the line of the magic itself: lab.notebook.export_magic
            return "%export"
        try:
            found = shell.compile.format_code_name(filename)
        except Exception:  # another compiler than IPython's
            found = None
        return found[1].replace("In[", "In [") if found else was(filename)

    source.name_of_file = name_of_file
    tracebacks.install(shell, magics.raising)
    shell._gradlab = (magics, was)


def unload(shell: Any) -> None:
    """Take everything back."""
    magics, was = getattr(shell, "_gradlab", None) or (None, None)
    if magics is None:
        return
    magics.drop()
    if ranks := shell.magics_manager.registry.get("RankMagics"):
        ranks.close()
    try_button.another_cell()
    shell.input_transformers_cleanup.remove(rewrite)
    shell.events.unregister("pre_run_cell", magics.before)
    shell.events.unregister("post_run_cell", magics.after)
    shell.events.unregister("post_execute", magics.ended)
    for kind in ("line", "cell"):
        for name in MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
    source.name_of_file = was  # type: ignore[assignment]
    tracebacks.remove(shell)
    shell._gradlab = None
