"""Slow lines that are Python's: lists made into tensors, files written in a loop, cells stepped by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from ...recorder.cell_trace import Chain, Row, Trace
from ...recorder.user_files import is_users
from ..finding import spot
from ..reading.sources import called, names_in, sources
from .loop_recipes import recipe
from .op_costs import flops_of, in_place, layer_steps, of_loop
from .time_shares import Frame, Loop, Saving, Shares, around, in_loop, loop_around, quoted, spent, tree_of

HOT = 0.15  # share of a cell's time from which a line of Python is
SAVED = 0.9  # of the time on a line
STEPS = 48  # runs of a cell from which a layer is faster
WRITING = re.compile(r"\b(save|savez|dump|to_csv)\(")
PASSIVE = re.compile(r"\.(backward|step|zero_grad)\(|autograd\.grad\(|\bsleep\(|\binput\(")


class Costly(NamedTuple):
    """A call that is slow for a reason that is known."""

    pattern: re.Pattern[str]
    does: str
    remedy: str
    rarely: bool = False
    """Whether it is to run less often, so that the line to change is the one in the loop."""
    single: bool = False
    """Whether it takes single values, which the ops that do all turns at once need not."""
    makes: bool = False
    """Whether it makes an array of values, of which a few that stand in the call cost nothing."""


def _costly(pattern: str, does: str, remedy: str, **facts: bool) -> Costly:
    return Costly(re.compile(pattern), does, remedy, **facts)


CALLS = (
    _costly(
        r"\b(tensor|as_tensor|(Float|Long|Double|Int|Bool)?Tensor)\(",
        "makes a tensor of Python's values, element by element",
        "Put them together as one array first: torch.from_numpy(np.stack(list)), or torch.stack where they are "
        "tensors; or keep the data as one tensor and index it.",
        makes=True,
    ),
    _costly(
        r"\bnp\.(array|asarray|stack|vstack)\(",
        "makes an array of Python's values",
        "Keep the data as one array, made once, and index it.",
        makes=True,
    ),
    _costly(
        r"\b(torch|core|pickle|joblib|np)\.(save|savez|dump|dumps)\(|\.to_csv\(|json\.dumps?\(",
        "writes a file or a string of all that it is given, object by object",
        "Stack many small tensors into few large ones before it is written, and write it more rarely.",
        rarely=True,
    ),
    _costly(
        r"\b(torch|core|pickle|joblib|np)\.loads?\(|read_csv\(|imread\(|Image\.open\(|\bopen\(|json\.loads?\(",
        "reads a file again and again",
        "Read it once, before the loop, and keep what it holds.",
        rarely=True,
    ),
    _costly(r"deepcopy\(", "copies objects in depth", "Copy only what is needed (a state_dict), and only when it is."),
    _costly(
        r"\.choice\(.*\bp\s*=|random\.choices\(.*weights",
        "draws by weights, of which a table is made anew in each call",
        "Draw all at once: choice(n, size=(rows, k), p=p), torch.multinomial, or searchsorted in a table made once.",
    ),
    _costly(
        r"\bchoice\(.*replace\s*=\s*False|\brandom\.permutation\([^)]*\)+\[|\brandperm\([^\[]*\)\[",
        "shuffles all numbers to take a few of them",
        "Draw only as many as are wanted (torch.randint, or numpy.random.default_rng().choice), or shuffle once an "
        "epoch and take slices.",
    ),
    _costly(
        r"random\.(sample|choices?|shuffle)\(",
        "draws in Python, with a call for each time",
        "Draw indices for all turns in one call, torch.randint(0, n, (turns, k)), and take rows of one tensor by them.",
    ),
    _costly(
        r"\.(tolist|item|numpy)\(",
        "takes single values out of tensors",
        "Take them all at once, after the loop.",
        single=True,
    ),
    _costly(
        r"\b(plt|ax|fig)\.|savefig\(",
        "draws a figure",
        "Draw once, after the loop, or every so many steps.",
        rarely=True,
    ),
    _costly(
        r"\.(iterrows|iloc|loc)\b|(\b[a-z_]\w*|\])\.apply\(",
        "goes through a table row by row",
        "Take the columns as arrays, once.",
    ),
    _costly(
        r"\.index\(",
        "walks through a list to find each element",
        "Make a dict of the places once, before the loop: {word: k for k, word in enumerate(words)}.",
    ),
    _costly(
        r"\.pop\(0\)|\.insert\(0,|\.remove\(",
        "moves a whole list for each element",
        "Use collections.deque (popleft, appendleft), or a place that is counted up.",
    ),
    _costly(
        r"\bsorted\(|\.sort\((key=|reverse=|\))",
        "sorts in Python again and again",
        "Sort once, after the loop; for a few of the largest keep a heap (heapq), for places bisect.insort.",
    ),
    _costly(
        r"\bnp\.(vectorize|frompyfunc|apply_along_axis)\(",
        "calls a function of Python's for each element",
        "Write it in ops of whole arrays.",
    ),
    _costly(
        r"\bprint\(|\blogg(er|ing)\.\w+\(|\.(add_scalar|add_histogram)\(|\.log\(\s*(\{|f?['\"])",
        "writes to the log",
        "Write every so many turns, of values gathered meanwhile.",
        rarely=True,
    ),
)

DEQUE = _costly(
    r"\.(sample|choices?)\(",
    "draws from a deque, which walks from its end to each element that is drawn",
    "Keep them in a list, whose elements are all equally near, and where it is full write over the oldest: "
    "items[count % capacity] = item.",
)
SEARCHED = _costly(
    r"\b(where|nonzero|flatnonzero|argwhere)\(",
    "looks through all values in each turn, for those that are like this turn's or unlike it",
    "Do it for all turns at once.",
)


def lines(shares: Shares) -> Iterator[Saving]:
    """A line in which much of the time passes, and not in ops."""
    trace = shares.trace
    if not shares.fair:
        return
    ops: dict[Frame, int] = {}
    for row in shares.rows:
        for frame in row.chain[:1]:
            ops[frame] = ops.get(frame, 0) + row.forward_ns
    met: dict[Frame, tuple[int, int, Chain]] = {}
    for sample in trace.samples.values():
        own = next((k for k, f in enumerate(sample.places) if _own(trace, f)), None)
        if own is None or sample.waits >= 0:
            continue
        ns, turns, chain = met.get(sample.places[own], (0, 0, sample.places[own:]))
        met[sample.places[own]] = ns + sample.ns, turns + sample.beats, chain
    passive = {chain[0] for chain in (*trace.spans, *trace.backwards, trace.steps.last_step, *trace.fetched) if chain}
    groups: dict[tuple[CodeType, Costly], list[tuple[float, float, Chain]]] = {}
    for frame, (ns, _, chain) in met.items():
        share = ns / shares.looked
        in_ops = ops.get(frame, 0) / shares.total
        code = trace.place(*frame).code or quoted(trace, chain, 200)
        if frame in passive or in_ops > 0.4 * share or PASSIVE.search(code) or not in_loop(trace, chain):
            continue
        known = known_at(trace, chain, code)
        if known is not None and not (known.makes and _few(trace, frame, known)):
            groups.setdefault((frame[0], known), []).append((share - in_ops, share, chain))
    for (_, known), found in groups.items():
        net, chain = sum(net for net, _, _ in found), max(found, key=lambda each: each[0])[2]
        if net < HOT:
            continue
        more = f" and {len(found) - 1} more like it" if len(found) > 1 else ""
        outer = in_loop(trace, chain) if known.rarely else chain
        if known.rarely and _each_its_own(trace, outer, chain):
            continue
        there = f" ({spot(trace, chain[0])})" if outer[0][0] is not chain[0][0] else ""
        yield from shares.saving(
            SAVED * net * shares.total,
            outer,
            f"{known.does}: about {100 * net:.0f} % of this cell's time passes in {quoted(trace, chain)}{there}{more}.",
            _made_once(trace, chain)
            or (_grouped(trace, chain[0]) if known is SEARCHED else "")
            or _by_name(trace, chain[0], known)
            or (recipe(trace, chain) if known.single else "")
            or known.remedy,
        )


def _made_once(trace: Trace, chain: Chain) -> str:
    """The remedy for what an object's __init__ does, where the object is made in each turn; "" anywhere else."""
    own = chain[1:] if chain[0][0].co_name.startswith("<") else chain  # a comprehension in it is a function of its own
    if not own or own[0][0].co_name != "__init__" or not in_loop(trace, own[1:]):
        return ""
    return (
        f"Make the object once, before the loop, and use it in each turn: {quoted(trace, own[1:])} "
        f"({spot(trace, own[1])})."
    )


def _by_name(trace: Trace, frame: Frame, known: Costly) -> str:
    """The remedy with the names of the call: of a list that a tensor is made of, of one that is searched."""
    call = next((node for node in around(trace, frame) if isinstance(node, ast.Call)), None)
    calls = [n for n in ast.walk(call) if isinstance(n, ast.Call)] if call is not None else []
    for node in calls:
        given = ast.unparse(node.args[0]) if node.args else ""
        of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if not given or len(given) > 40 or len(of) > 40 or not known.pattern.search(ast.unparse(node)):
            continue
        if called(node) == "index" and len(node.args) == 1:
            made = f"places = {{word: k for k, word in enumerate({of})}}"
            return f"Make a dict of the places once, before the loop: {made}; then places[{given}]."
        weights = next((k.value for k in node.keywords if k.arg == "p"), None)
        size = next((k.value for k in node.keywords if k.arg == "size"), node.args[1] if len(node.args) > 1 else None)
        if called(node) == "choice" and weights is not None and len(ast.unparse(node)) < 70:
            rows = "n" if size is None else f"(n, {ast.unparse(size)})"
            kept = "".join(f", {k.arg}={ast.unparse(k.value)}" for k in node.keywords if k.arg != "size")
            all_at_once = f"{ast.unparse(node.func)}({given}, size={rows}{kept})"
            return f"Draw for all n turns in one call, before the loop: {all_at_once}, or torch.multinomial."
        plain = isinstance(node.args[0], ast.Name | ast.Attribute | ast.Subscript)
        if called(node) in ("tensor", "as_tensor") and len(node.args) == 1 and plain:
            return (
                f"Put them together as one array first: torch.from_numpy(np.stack({given})), or torch.stack({given}) "
                "where they are tensors; or keep the data as one tensor and index it."
            )
    return ""


def known_call(code: str) -> Costly | None:
    """Return the costly call that a line makes.

    >>> known_call("obs = torch.tensor(obs)").does
    "makes a tensor of Python's values, element by element"
    """
    return next((call for call in CALLS if call.pattern.search(code)), None)


def known_at(trace: Trace, chain: Chain, code: str) -> Costly | None:
    """Return the costly call at a place: what is drawn from, and what a loop looks for, tell more than the call."""
    if not chain:
        return None
    call = next((node for node in around(trace, chain[0]) if isinstance(node, ast.Call)), None)
    inside = [node for node in ast.walk(call) if isinstance(node, ast.Call)] if call is not None else []
    drawn = [node for node in inside if node.args and DEQUE.pattern.search(ast.unparse(node.func) + "(")]
    if any(_is_deque(trace, node.args[0]) for node in drawn):
        return DEQUE
    if (found := _searched(trace, chain[0])) is not None:
        loop, names = found
        turn = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        nodes = [n for node in around(trace, chain[0])[:2] for n in ast.walk(node)]
        compares = any(isinstance(n, ast.Compare) and names_in(n) & turn for n in nodes)
        if compares or SEARCHED.pattern.search(code) or any(names_in(node) & names for node in drawn):
            return SEARCHED
    return known_call(code)


def _is_deque(trace: Trace, of: ast.expr) -> bool:
    """Whether a program gives a variable, or an attribute of that name, a deque and nothing else."""
    kind, name = type(of), getattr(of, "attr", getattr(of, "id", ""))
    given = [
        node.value
        for source in sources(trace)
        for node in source.nodes
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if name and isinstance(target, kind) and name == getattr(target, "attr", getattr(target, "id", ""))
    ]
    return bool(given) and all(isinstance(value, ast.Call) and called(value) == "deque" for value in given)


def _searched(trace: Trace, frame: Frame) -> tuple[ast.For, set[str]] | None:
    """The loop around a place that looks through a whole array for what is like its turn's value,
    ``np.where(labels == label)[0]``, and the variables that it keeps what it finds in."""
    loop = loop_around(trace, frame)
    if not isinstance(loop, ast.For):
        return None
    turn = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    assigned = [n for n in ast.walk(loop) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    masks = {n.targets[0].id for n in assigned if isinstance(n.value, ast.Compare) and names_in(n.value) & turn}  # type: ignore[attr-defined]
    names = set()
    for node in assigned:
        calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call) and n.args]
        if any(
            SEARCHED.pattern.search(ast.unparse(n.func) + "(")
            and len(n.args) == 1
            and (names_in(n.args[0]) & masks or (isinstance(n.args[0], ast.Compare) and names_in(n.args[0]) & turn))
            for n in calls
        ):
            names.add(node.targets[0].id)  # type: ignore[attr-defined]
    return (loop, names) if names else None


def _grouped(trace: Trace, frame: Frame) -> str:
    """The remedy for a loop that looks through all labels in each turn, with their name; "" where none is compared."""
    found = _searched(trace, frame)
    if found is None:
        return ""
    turn = {n.id for n in ast.walk(found[0].target) if isinstance(n, ast.Name)}
    sides = [
        ast.unparse(side)
        for n in ast.walk(found[0])
        if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)
        for side in (n.left, n.comparators[0])
        if isinstance(side, ast.Name | ast.Attribute) and not names_in(side) & turn
    ]
    if not sides or len(sides[0]) > 30:
        return ""
    return (
        f"Sort once, before the loop: order = np.argsort({sides[0]}, kind='stable') puts those of one value side by "
        f"side, and np.searchsorted({sides[0]}[order], values) tells where each value begins. Then draw for all turns "
        "at once, as places in order: begin + np.random.randint(0, size) with arrays of both; what is unlike lies "
        "before and behind."
    )


def _each_its_own(trace: Trace, outer: Chain, chain: Chain) -> bool:
    """Whether a loop that trains nothing writes a file of another name in each turn: the data that follows is made."""
    loop, code = loop_around(trace, outer[0]), trace.place(*chain[0]).code
    if not isinstance(loop, ast.For) or not WRITING.search(code) or outer[0] != chain[0]:
        return False
    trains = any(called(n) in ("backward", "step") for n in ast.walk(loop))
    call = next((n for n in around(trace, chain[0]) if isinstance(n, ast.Call)), None)
    turn = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return call is not None and bool(names_in(call) & turn) and not trains


def _few(trace: Trace, frame: Frame, known: Costly) -> bool:
    """Whether a call is given a list of a few elements that stands in it, as the state of a game is."""
    call = next((node for node in around(trace, frame) if isinstance(node, ast.Call)), None)
    inside = [n for n in ast.walk(call) if isinstance(n, ast.Call)] if call is not None else []
    made = [n for n in inside if known.pattern.search(ast.unparse(n.func) + "(")] or inside[:1]
    return bool(made) and all(n.args and isinstance(n.args[0], ast.List | ast.Tuple | ast.Constant) for n in made)


def _own(trace: Trace, frame: Frame) -> bool:
    return frame[0].co_filename in trace.files or is_users(frame[0].co_filename)


def stepped(shares: Shares) -> Iterator[Saving]:
    """A recurrent network written as a loop over time, where a layer does all steps in one call."""
    trace = shares.trace
    loops: dict[tuple[str, int], tuple[Loop, Chain, list[Row]]] = {}
    for row in shares.rows:
        chain = in_loop(trace, row.chain)
        while chain:
            loop = loop_around(trace, chain[0])
            if loop is not None and not isinstance(loop, ast.While):
                key = (chain[0][0].co_filename, loop.lineno)
                loops.setdefault(key, (loop, chain, []))[2].append(row)
            chain = in_loop(trace, chain[1:])
    for loop, chain, rows in loops.values():
        if not isinstance(loop, ast.For):
            continue
        products = [row for row in rows if row.op in PRODUCTS or _cell(trace, row)]  # core runs a cell as one op
        bends = {row.op.rstrip("_") for row in rows} & {"sigmoid", "tanh", "relu", "gru_cell", "lstm_cell", "rnn_cell"}
        cells = {cell for row in rows if (cell := _cell(trace, row))}
        runs = sum(row.runs for row in products)
        if (
            runs < STEPS
            or not (bends or cells)
            or not _walks(loop)
            or _layer_by_layer(loop)
            or not (carried := _carried(trace, loop, chain))
        ):
            continue
        fed = {"argmax", "max", "max_dim", "multinomial", "topk", "where"} & {row.op for row in rows}
        if fed or any(isinstance(node, ast.If | ast.IfExp) for node in ast.walk(loop)):
            continue  # what it gives goes in again, so that no layer can take the whole sequence
        if not cells and not bends & {"sigmoid", "tanh", "gru_cell", "lstm_cell"}:
            continue
        two = len(carried) > 1 and "tanh" in bends and "sigmoid" in bends
        layer = next(iter(cells))[:-4] if cells else "LSTM" if two else "GRU" if "sigmoid" in bends else "RNN"
        first = min(products, key=lambda row: row.number)
        at = next((first.chain[k:] for k in range(len(first.chain)) if first.chain[k:][:1] and
                   first.chain[k][0] is chain[0][0]), chain)  # fmt: skip
        steps = max(row.runs for row in products)
        trained = any(row.reached for row in rows)
        left = in_place(shares, 0, sum(row.runs * flops_of(row) for row in products), trained=trained)
        yield from shares.saving(
            max(of_loop(shares, loop), spent(rows)) - left - layer_steps(shares, steps, trained),
            at,
            f"steps a recurrent network by hand, one moment at a time: {quoted(trace, at)} and the rest of the loop of "
            f"line {loop.lineno} ran {sum(row.runs for row in rows):,} ops.",
            f"Use nn.{layer}, which takes the whole sequence in one call; or at least multiply all inputs by their "
            "weights before the loop, and the gates' weights as one matrix.",
            [first],
        )


def _layer_by_layer(loop: ast.For) -> bool:
    """Whether each turn runs a module of its own, which is no step of a recurrent network.

    >>> loops = (ast.parse(f"for i in turns: h = {call}").body[0] for call in ("self.layers[i](h)", "self.cell(x[i])"))
    >>> [_layer_by_layer(loop) for loop in loops]
    [True, False]
    """
    turn = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    called = [n.func for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)]
    return any(turn & names_in(func.slice) for func in called)


LAYERS = ("LSTM", "GRU", "RNN")
PRODUCTS = {"linear", "matmul", "mm", "addmm", "gru_cell", "lstm_cell"}


def _cell(trace: Trace, row: Row) -> str:
    """The class of the recurrent cell that an op runs in; "" for any other module."""
    kind = trace.entered[row.path][-1][0] if trace.entered[row.path] else ""
    return kind if kind.endswith("Cell") and kind[:-4] in LAYERS else ""


def _carried(trace: Trace, loop: ast.For, chain: Chain) -> set[str]:
    """Names that a loop's body reads and then gives a new value, from what it read: a state."""
    carried = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign):
            names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name) and
                     isinstance(n.ctx, ast.Store)}  # fmt: skip
            carried |= {n for n in names if _read_before(loop, n, node.lineno)}
    outside = {n.id for n in ast.walk(tree_of(trace, chain[0][0].co_filename) or loop) if isinstance(n, ast.Name) and
               isinstance(n.ctx, ast.Store) and n.lineno < loop.lineno}  # fmt: skip
    return carried & outside


def _read_before(loop: ast.For, name: str, line: int) -> bool:
    """Whether a loop reads a name before it gives it a value."""
    uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
    first = min((n.lineno for n in uses if isinstance(n.ctx, ast.Store)), default=line)
    return any(n.lineno <= first for n in uses if isinstance(n.ctx, ast.Load))


def _walks(loop: ast.For) -> bool:
    """Whether a loop goes through a sequence: x[:, t], x[t], or `for part in x.unbind(1)`."""
    variables = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    for node in ast.walk(loop):
        reads = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        if reads and variables & {n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)}:  # type: ignore[attr-defined]
            return True
    return "unbind" in ast.unparse(loop.iter) or "transpose" in ast.unparse(loop.iter)


IDIOMS = (lines, stepped)
