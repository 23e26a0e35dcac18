"""What makes a cell slower than it needs to be: float64 by accident, one row of a batch at a time, tiny ops."""

from __future__ import annotations

import ast
import math
import re
from typing import TypeGuard

from widgets.figures import size_text, time_text

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, spot, where
from ..order import rule
from ..reading.sources import Place, Source, assigned, called, sources
from .busy_lines import busy_lines, in_loop_most
from .loop_recipes import gradient_of_each
from .loop_recipes import recipe as recipe_of_loops
from .neighbour_loops import recipe
from .op_costs import for_all_turns, harder, of_loop, of_ops, stands_in
from .sequential_loops import ACTING, TURNS_ALONE, acts, carried_in_place, sequential
from .time_shares import LEAST, Shares, busiest_loop, header, in_loop, less_time, loop_around

MANY = 2000  # op runs below which a cell is over before anybody waits
SMALL_US = 20.0  # an op shorter than this is mostly the call
SMALL_BYTES = 1 << 17  # results below which a GPU is done before the next launch
FEW_BYTES = 1 << 12  # results below which an op on a processor is worth no more than its call
ROWS, PER_STEP = 32, 8  # passes over single rows, in all and for each step, from which they should be one
GATHERING = {"stack", "cat", "select", "getitem", "unbind", "view", "reshape", "unsqueeze"}
WRITES = {"copy_", "fill_", "setitem", "index_put_", "put_"}
SHAPING = {"view", "reshape", "unsqueeze", "squeeze", "flatten", "to", "cast", "float", "expand"}
IN_LOOP = 0.6  # share of the ops from which a loop is what runs them
DEEP = 16  # weights of layers that a loop goes through one after another
ALONE = 0.5  # share of the time on a line without ops from which that line is what is waited for
WHOLE = "Work on whole tensors in place of elements or rows: one op over a batch costs as much as one over a row."
BATCHES = "Take larger batches: an op over twice as many rows takes hardly longer, and there are half as many calls."
CARRIED = (
    "What a turn writes into {name} is read by the next: walk over Python's numbers or NumPy's (.tolist(), .numpy()), "
    "which cost a tenth of a tensor's elements, or take all that do not depend on each other in one op."
)
IDLE = 0.6  # share of the wall time outside ops from which Python is what is waited for


@rule(810)
def double(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """float32 parameters and float64 data meet in an op: all that follows is float64."""
    kinds_held = {_dtype(leaf) for leaf in trace.parameters() if leaf in trace.gradients}
    if "float32" not in kinds_held:
        return _all_double(trace) if "float64" in kinds_held else []
    for row in trace.rows:
        if row.dtype != "float64" or row.cut or not row.requires_grad:
            continue
        kinds = {_dtype(_before_cast(ref, row)) for ref in row.refs if ref.shape}
        if not {"float32", "float64"} <= kinds:
            continue
        line, col, place = where(trace, row.chain)
        names = [ref.name for ref in row.refs if isinstance(ref, Leaf) and ref.dtype == "float64" and ref.name]
        who = f" ({names[0]} is float64, as NumPy makes it)" if names and not names[0].startswith("unnamed") else ""
        message = capital(
            f"{place} goes on in float64: `{code_of(trace, row)}` mixes float32 and float64{who}, and what follows "
            "takes twice the memory and the time."
        )
        return [
            Found("dtype", "warning", line, col, message, "Convert the data once, where it is made: .float().", [row])
        ]
    return []


def _all_double(trace: Trace) -> list[Found]:
    """Data in float64, as NumPy makes it, and a model that was made double to go with it."""
    texts = [trace.source, *(source.text for source in sources(trace))]
    if any(word in text for word in ("set_default_dtype", "set_default_tensor_type") for text in texts):
        return []  # it is meant
    for row in trace.rows:
        data = [leaf for ref in row.refs if (leaf := _read(ref)) is not None]
        held = [ref for ref in row.refs if isinstance(ref, Leaf) and ref.requires_grad]
        if row.dtype != "float64" or not row.requires_grad or not data or not held or row.cut:
            continue
        line, col, place = where(trace, row.chain)
        named = data[0].name if data[0].name and not data[0].name.startswith("unnamed") else "its data"
        message = capital(
            f"{place} computes in float64 (`{code_of(trace, row)}`: {named} and the parameters alike), which takes "
            "twice the memory and the time of float32."
        )
        models = {leaf.name.partition(".")[0] for leaf in trace.parameters() if leaf.dtype == "float64"}
        doubles = [(s, n) for s in sources(trace) for n in s.nodes if _makes_double(n)]
        made = next((pair for pair in doubles if _of_model(*pair, models)), next(iter(doubles), None))
        begins = _assigned(trace, named)
        remedy = "Convert the data once, where it is made (.float()), and leave the model as it is, in float32."
        if begins is not None:
            along = "the parameters are too"
            if made is not None:
                along = f"`{short(made[1])}` ({made[0].place(made[1]).words}) goes along"
            line, col = begins.line, None
            message = capital(
                f"{begins.words} brings in float64: {named} is what NumPy makes, {along}, and {place} computes in it, "
                "which takes twice the memory and the time of float32."
            )
        if made is None:
            remedy = "Make float32 tensors of NumPy's arrays, data and parameters: .float(), or dtype=float32."
        return [Found("dtype", "note", line, col, message, remedy, [row])]
    return []


def _read(ref: Ref) -> Leaf | None:
    """The float64 data that a value is, or was made of: a batch that was picked, normalised, put in another shape."""
    while isinstance(ref, Row) and ref.dtype == "float64" and not ref.requires_grad and ref.refs:
        ref = ref.refs[0]
    data = isinstance(ref, Leaf) and ref.dtype == "float64" and not ref.requires_grad
    return ref if data else None  # type: ignore[return-value]


def _assigned(trace: Trace, name: str) -> Place | None:
    """Where a name first gets its value, at the top level of the cell, an earlier one or a file."""
    pairs = ((s, pair) for s in sources(trace) for pair in assigned(s.tree.body) if pair.name == name)
    return next((source.place(pair.node) for source, pair in pairs), None)


def short(node: ast.AST) -> str:
    """A call's text, where it is short enough for a sentence.

    >>> short(ast.parse("Net(3).double()", mode="eval").body)
    'Net(3).double()'
    """
    text = ast.unparse(node)
    return text if len(text) < 60 else ".double()"


def _makes_double(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is a call ``something.double()``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "double"


def _of_model(source: Source, call: ast.Call, models: set[str]) -> bool:
    """Whether ``.double()`` is a model's: of a variable that holds one, or where one is made and kept."""
    of, above = ast.unparse(call.func.value), source.parents.get(call)  # type: ignore[attr-defined]
    into = {ast.unparse(t) for t in above.targets} if isinstance(above, ast.Assign) else set()
    return of in models or bool(into & models)


def _dtype(ref: Ref) -> str:
    """Of a leaf what it is now: a model may have been made double after it was first met."""
    t = ref.tensor() if isinstance(ref, Leaf) else None
    return ref.dtype if t is None else str(t._kind.dtype.name)


def _before_cast(ref: Ref, row: Row) -> Ref:
    """What an op was given before it brought its operands to one dtype."""
    own = isinstance(ref, Row) and ref.op == "cast" and ref.chain == row.chain and len(ref.refs) == 1
    return ref.refs[0] if own else ref  # type: ignore[union-attr]


def one_at_a_time(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loop in Python over the rows of a batch, each of which goes through the model alone."""
    if any(isinstance(n, ast.Call) and ast.unparse(n.func).endswith("vmap") for n in trace.nodes()):
        return []  # vmap takes the rows, not the user
    readers = trace.consumers()
    recurring: dict[tuple[Chain, str], set[Row]] = {}
    passes: dict[tuple[Chain, str], list[Row]] = {}
    taken: dict[tuple[Chain, str], tuple[Row, int]] = {}
    for row in trace.rows:
        n = of_rows(row) if not SAME_ROW.search(code_of(trace, row)) else 0
        for after in _first_readers(row, readers) if n else ():
            if after.op in WRITES or after.chain == row.chain:
                continue  # what is computed is put there
            if after.requires_grad and not after.cut and after.op not in GATHERING and after.phase == "forward":
                if any(_recurs(r, trace, recurring) for r in (after, *readers.get(after, ()))):
                    continue
                passes.setdefault((after.chain, after.op), []).append(after)
                taken[after.chain, after.op] = row, n
    if not passes:
        return []
    key, rows = max(passes.items(), key=lambda pair: sum(r.runs for r in pair[1]))
    rows = list(dict.fromkeys(rows))
    count = sum(r.runs for r in rows)
    if count < max(ROWS, PER_STEP * trace.steps.ran) or not any(r.count > 2 for r in rows):
        return []
    source, n = taken[key]
    line, col, place = where(trace, rows[0].chain)
    ran = f"`{code_of(trace, rows[0])}`"
    taken_at = where(trace, source.chain)
    codes = [r.chain[0][0] if r.chain else None for r in (source, rows[0])]
    if taken_at[0] not in (None, line) and codes[0] is not codes[1]:  # the loop calls the function that computes
        ran += f" ({place})"
        line, col, place = taken_at
    total = trace.wall_ns - trace.own_ns
    taking = code_of(trace, source).removesuffix("…").strip().rstrip(":")
    each = time_text(sum(r.forward_ns for r in rows) / count / 1e6)
    between = 1 - _inside(trace) / total if total else 0.0  # a closure that a step calls counts in both
    python = f"; {100 * between:.0f} % of this cell's time is Python between the ops" if between > 0 else ""
    message = capital(
        f"{place} works on one row at a time: `{taking}` takes one of {n:,}, and {ran} ran "
        f"{count:,} times, {each} each{python}."
    )
    less = _less(trace, rows)
    message += less
    remedy = f"Give it all rows at once: an op over {n:,} rows costs little more than an op over one."
    if form := recipe_of_loops(trace, rows[0].chain, any(row.path for row in rows)):
        remedy = f"Give it all rows at once. {form}"
    if slices := recipe(trace, line):
        loops, text = slices
        here = [r for r in trace.rows if r.phase == "forward" and not r.cut and r.line == line]
        message = capital(
            f"{place} works on one element at a time, {loops}: `{taking}` takes one of {n:,}, and this line ran "
            f"{sum(r.runs for r in here):,} ops on single numbers{python}."
        )
        message += less
        remedy = f"Take the differences of neighbours by slices, all at once: {text}."
    return [Found("overhead", "note", line, col, message, remedy, [rows[0]])]


def _less(trace: Trace, rows: list[Row]) -> str:
    """What is saved where a loop's turns are done at once, in a sentence; of a loop whose turns need one another, where
    the ops on one line are."""
    shares, chain = Shares(trace), in_loop(trace, rows[0].chain)
    loop = loop_around(trace, chain[0]) if chain else None
    if loop is None:
        return ""
    alone, line = sequential(loop), shares.line_of(chain[0])

    def goes_along(row: Row) -> bool:
        return line in map(shares.line_of, row.chain) if alone else stands_in(trace, row.chain, loop)

    inside = [row for row in shares.rows if row.phase == "forward" and goes_along(row)]
    turns = max((row.runs for row in rows), default=1) / max(trace.steps.ran, 1)
    left = for_all_turns(shares, inside, turns)

    def share(of: Shares) -> float:
        return of.part((of_ops(of, inside) if alone else of_loop(of, loop)) - left)

    return saved(share(shares), share(harder(shares)))


def saved(share: float, least: float | None = None) -> str:
    """Return the sentence about a share of the time that is saved; "" where it is too little.

    >>> saved(0.5), saved(0.01)
    (' Without that the cell would take about 50 % less time.', '')
    """
    return f" Without that the cell would take {less_time(min(share, 0.99), least)}." if share >= LEAST else ""


def _recurs(row: Row, trace: Trace, known: dict[tuple[Chain, str], set[Row]]) -> bool:
    """Whether an op needs what it gave in the pass before: the state of a recurrent network, and not a sum."""
    if math.prod(row.shape) < 2 or row.count > max(2, trace.steps.ran):
        return False
    key = row.chain, row.op
    if key not in known:
        known[key] = _computed_from(trace, key)
    return row in known[key]


def _computed_from(trace: Trace, key: tuple[Chain, str]) -> set[Row]:
    """Return what was computed from the rows of an op at a place: in one pass, since a row reads earlier ones alone."""
    chain, op = key
    found: set[Row] = set()
    for row in trace.rows:
        if any(isinstance(r, Row) and (r in found or (r.op == op and r.chain == chain)) for r in row.refs):
            found.add(row)
    return found


def _first_readers(row: Row, readers: dict[Ref, list[Row]]) -> list[Row]:
    """Who reads a row of a batch, looked at through what only gives it another shape or dtype."""
    found: list[Row] = []
    stack = [row]
    while stack and len(found) < 64:
        for after in readers.get(stack.pop(), ()):
            if not after.requires_grad and after.op in SHAPING and len(after.refs) == 1:
                stack.append(after)
            else:
                found.append(after)
    return found


SAME_ROW = re.compile(r"\[-?\d+\]$")  # an index that is the same in each run


def of_rows(row: Row) -> int:
    """The number of rows or elements of the tensor that an op takes single ones of; 0 for any other op."""
    if row.op not in ("select", "getitem", "unbind") or len(row.refs) != 1 or row.cut:
        return 0
    shape = tuple(row.refs[0].shape)
    lead = len(shape) - len(row.shape)
    if lead < 1 or shape[lead:] != row.shape:
        return 0
    n = math.prod(shape[:lead])
    return n if n >= PER_STEP else 0


def _inside(trace: Trace) -> int:
    """The time in ops."""
    spent = sum(row.forward_ns for row in trace.rows if not row.cut and row.phase == "forward")
    return spent + trace.backward_ns + trace.update_ns


@rule(860)
def overhead(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Thousands of tiny ops: the time goes to calling them."""
    if alone := one_at_a_time(trace, explained):
        return alone
    forward = [row for row in trace.rows if not row.cut and row.phase == "forward" and row.count]
    runs = sum(row.runs for row in forward)
    spent = sum(row.forward_ns for row in forward)
    imports = trace.samples.get("import")
    wall = trace.wall_ns - trace.own_ns - (imports.ns if imports is not None else 0)
    idle = 1 - _inside(trace) / wall if wall > 0 else 0.0
    on_gpu = [row for row in forward if row.device not in ("", "cpu")]
    launched = sum(row.runs for row in on_gpu)
    bound = launched >= MANY and sum(row.size * row.runs for row in on_gpu) / launched < SMALL_BYTES
    shares = Shares(trace)
    few = sum(row.size * row.runs for row in forward) < FEW_BYTES * runs and shares.ran * spent <= 1e3 * SMALL_US * runs
    if runs < MANY or not (bound or (idle >= IDLE and few)):
        return []
    by_line: dict[tuple[str, int], list[Row]] = {}
    for row in forward:
        if row.line is not None and row.place is not None:
            by_line.setdefault((row.place.file, row.place.line), []).append(row)
    if not by_line:
        return []
    here = max(by_line.values(), key=lambda rows: sum(row.runs for row in rows))
    count, row = sum(row.runs for row in here), here[-1]
    if any(chain[:1] == row.chain[:1] for chain in trace.fetched):
        return []  # a loader's: what it costs is told of its batches
    line, _, place = where(trace, row.chain)
    does, most, less = f"{place} runs {count:,} of {runs:,} ops", "", ""
    remedy = WHOLE
    busiest = busiest_loop(trace, forward, IN_LOOP)
    calls = {called(n) for n in ast.walk(busiest.loop)} if busiest is not None else set()
    if (calls & ACTING and not calls & {"backward", "zero_grad"}) or _in_a_world(trace, row):
        return []  # a world goes on by steps, each of which needs the one before
    if busiest is not None and sequential(busiest.loop) and _layers(forward):
        return []  # a model's layers, one after another
    if busiest is not None and not calls & {"backward", "step"}:
        does = f"the loop at {busiest.words}, `{header(busiest.loop)}`, runs {busiest.runs:,} of {runs:,} ops"
        longest = in_loop_most(trace, busy_lines(shares), busiest.loop)
        if longest is not None and not longest.rows and longest.python > ALONE * shares.total:
            return []  # no op is what takes the time
        there, chain = spot(trace, row.chain[0]), longest.chain if longest is not None and longest.rows else row.chain
        where_most = [f"most of them on {there}"] if there not in (busiest.words, busiest.own) else []
        if (longer := spot(trace, chain[0])) not in (there, busiest.words, busiest.own):
            where_most.append(f"most of the time on {longer}")
        most = f" ({', '.join(where_most)})" if where_most else ""
        line = where(trace, chain)[0] if longest is not None else busiest.line
        strict = harder(shares)
        whole, least = of_loop(shares, busiest.loop), of_loop(strict, busiest.loop)
        inside = [row for row in forward if stands_in(trace, row.chain, busiest.loop)]
        if _of_parameters(inside) or _by_hand(busiest.loop, inside):
            return []  # an optimizer's step, one parameter after another
        turns = busiest.runs / max(len(inside) * trace.steps.ran, len(inside), 1)
        left = for_all_turns(shares, inside, turns)
        less = saved(shares.part(whole - left), strict.part(least - left))
        if sequential(busiest.loop):
            remedy, less = TURNS_ALONE, ""
        remedy = recipe_of_loops(trace, chain, any(r.path for r in inside)) or remedy
        if name := carried_in_place(busiest.loop):
            remedy, less = CARRIED.format(name=name), saved(shares.part(0.9 * whole), strict.part(0.9 * least))
    elif busiest is not None and "step" not in calls and (of_each := gradient_of_each(busiest.loop)):
        does = f"the loop at {busiest.words}, `{header(busiest.loop)}`, goes back from one row at a time, and runs "
        does += f"{busiest.runs:,} of {runs:,} ops"
        line, remedy = busiest.line, of_each
    elif (fitting := _of_whole(trace, here)) is not None:
        remedy = fitting
        if not remedy:
            return []  # whole tensors already, as large as they get
    if bound:
        mean = size_text(sum(r.size * r.runs for r in on_gpu) / launched)
        message = (
            f"{does}{most}, each on {mean} on average: launching such a kernel takes "
            "longer than its work, so the GPU waits for Python."
        )
    else:
        message = (
            f"{does} that take {time_text(spent / runs / 1e6)} each{most}: "
            f"{100 * idle:.0f} % of this cell's time is Python between the ops and not in them."
        )
    return [Found("overhead", "note", line, None, capital(message) + less, remedy, [row])]


def _in_a_world(trace: Trace, row: Row) -> bool:
    """Whether the innermost loop around an op, of its function or of one that calls it, acts and trains nothing."""
    loop = next((loop for frame in row.chain if (loop := loop_around(trace, frame)) is not None), None)
    return loop is not None and acts(loop) and not trains(loop)


def trains(loop: ast.AST) -> bool:
    """Return whether a loop goes backward, or clears gradients."""
    return any(called(n) in ("backward", "zero_grad") for n in ast.walk(loop))


def _of_parameters(rows: list[Row]) -> bool:
    """Whether most ops are given a parameter as a whole, and are none of a layer's."""
    plain = [row for row in rows if not row.requires_grad and not row.path]
    whole = [row for row in plain if any(_held(_values(ref)) and ref.shape == row.shape for ref in row.refs)]
    return 2 * sum(row.runs for row in whole) >= sum(row.runs for row in rows) > 0


def _by_hand(loop: ast.AST, rows: list[Row]) -> bool:
    """Whether a loop goes over parameters, and no op in it has a gradient."""
    over = ast.unparse(getattr(loop, "iter", loop))
    return "param" in over and not any(row.requires_grad for row in rows)


def _values(ref: Ref) -> Ref:
    """What a value is the values of: p of p.data."""
    while isinstance(ref, Row) and (ref.cut or ref.view) and len(ref.refs) == 1:
        ref = ref.refs[0]
    return ref


def _of_whole(trace: Trace, rows: list[Row]) -> str | None:
    """The remedy for a line whose ops work on whole batches, which can be larger, or on whole parameters and all of the
    data, which cannot ("" for these); None where most take single rows or elements."""
    runs = sum(row.runs for row in rows)
    layers = [row for row in rows if row.path and any(isinstance(ref, Leaf) and ref.module for ref in row.refs)]
    given = [next((ref for ref in row.refs if not _held(ref)), row.refs[0]) for row in layers]
    batches = [ref for ref in given if ref.shape[:1] > (1,)]
    if 2 * sum(row.runs for row in rows if row.path) >= runs and batches and len(batches) == len(layers):
        return "" if isinstance(given[0], Leaf) and not given[0].renewed else BATCHES
    if any(of_rows(row) for row in rows) or not any(math.prod(row.shape) > 1 for row in rows):
        return None
    if _of_parameters(rows) or any(not row.requires_grad and row.refs and _held(_values(row.refs[0])) for row in rows):
        return ""  # a step by hand
    data = [r for r in ancestors(rows) if isinstance(r, Leaf) and not r.requires_grad and len(r.shape) > 1]
    taken = max(row.shape[0] for row in rows if row.shape)
    if any(leaf.renewed or leaf.shape[0] > taken for leaf in data):
        return BATCHES
    return "" if of_batches(rows) else None


def of_batches(rows: list[Row]) -> bool:
    """Return whether most runs of ops are on many values at once, and none takes a part of a tensor, one each time."""
    many = sum(row.runs for row in rows if math.prod(row.shape) >= ROWS)
    parts = any(row.op in ("select", "getitem", "unbind") and row.phase == "forward" for row in rows)
    return not parts and 2 * many >= sum(row.runs for row in rows) > 0


def _held(ref: Ref) -> bool:
    """Whether a value is a parameter."""
    return isinstance(ref, Leaf) and (ref.module or ref.requires_grad)


def _layers(rows: list[Row]) -> bool:
    """Whether ops go through many layers, each with weights of its own."""
    held = {ref for row in rows if row.path for ref in row.refs if isinstance(ref, Leaf) and ref.module}
    return len(held) >= DEEP
