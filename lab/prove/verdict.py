"""Does a patch hold? What was found must be gone, nothing may be worse, and its kind's criterion says what is better.

A lower loss alone proves nothing: without zero_grad() a small model fits faster. There are three levels. "proved":
something measured apart from the recorder is better. "consistent": the finding is gone, and nothing is worse.
"refuted": neither. Of what is to be faster a fourth: "unknown", where a busy machine does not tell.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

from core.base import syntax

from .cell import Cell, last_name
from .criteria import CRITERIA, SPEED, Criterion, Runs, freezing, in_vain, remade

STAYS = "the finding stays"
WORSE = ("error", "warning")  # severities of findings that may not come
_ONCE = re.compile(r"\bcall \w+ once\b|\bonce at the end\b|\bGo over the (?:other|training) part\b")
_FREEZES = ("it adds no_grad", "it adds detach", "it adds requires_grad_")
_KEPT_CALLS = ("backward", "step", "grad")  # what a patch may not take away
_HIDING = ("no_grad", "inference_mode", "set_grad_enabled", "detach", "detach_", "suppress", "simplefilter",
           "filterwarnings", "enable_grad", "requires_grad_", "exit", "_exit")  # fmt: skip
_SWITCHES = {"tensor", "as_tensor", "from_numpy", "item", "tolist", "detach", "detach_", "numpy", "cpu", "eval",
             "train", "set_detect_anomaly", "set_grad_enabled", "manual_seed", "seed"}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """How sure it is that a patch helps, and why in a few words."""

    level: str
    said: str


def judge(kind: str, texts: tuple[str, str], elsewhere: tuple[str, str] | None, runs: Runs) -> Verdict:
    """Judge a patch of a finding of a kind by what was measured and found before and with it; `texts` are the cell's,
    `elsewhere` those of another source that is changed."""
    wrong = _worse(kind, texts, elsewhere or texts, runs)
    if wrong:
        return Verdict("refuted", wrong)
    criterion = CRITERIA.get(kind, Criterion())
    proof = criterion.proof(runs)
    if kind in SPEED:
        unknown = runs.compared.unknown() if runs.compared is not None else ""
        if unknown and not proof:
            return Verdict("unknown", unknown)
        return Verdict("proved", proof) if proof else Verdict("refuted", criterion.otherwise(runs))
    if not runs.gone(kind):
        return Verdict("refuted", STAYS)
    if proof:
        return Verdict("proved", proof)
    if criterion.must_prove(runs):
        return Verdict("refuted", criterion.otherwise(runs))
    return Verdict("consistent", "this finding is gone, and nothing measured is worse")


def _worse(kind: str, texts: tuple[str, str], changed: tuple[str, str], runs: Runs) -> str:
    """What is worse with the patch, "" where nothing is."""
    before, after = runs.before, runs.after
    criterion = CRITERIA.get(kind, Criterion())
    ended = bool(before["error"]) and not after["error"]
    if after["error"]:
        return f"the changed cell fails: {after['error']}"
    if runs.found_after.get("error"):
        return f"the changed cell fails: {runs.found_after['error']}"
    hidden = hides(*changed)
    vain = in_vain(runs)  # who freezes what nothing trains hides nothing
    if hidden and not criterion.may_hide(hidden) and not (vain and hidden in _FREEZES):
        return hidden
    ends = _ends_early(texts[0]) or (changed is not texts and _ends_early(*changed))  # as an episode does
    asks = changed[1].count(".training") > changed[0].count(".training")  # so it runs in one mode alone
    drops = changed[1].count("drop_last=True") > changed[0].count("drop_last=True")  # a batch less in each epoch
    once = any(_ONCE.search(f.get("remedy", "")) for f in runs.found_before["found"] if f["kind"] == kind)
    every = kind not in SPEED and not ends and not asks and not drops and not once
    less = runs_less(*texts, dict(before["lines"]), dict(after["lines"]), all_of_them=every)
    if changed is not texts:
        there = dict(before["there"]), dict(after["there"])
        less = less or runs_less(*changed, *there, all_of_them=every)
    if less and not (after.get("stopped") or before.get("stopped")):  # cut short, it does not come to each line
        return less
    if after["bare"] > before["bare"]:
        return "backward() begins at a loss without a graph"
    taken = takes_away(*changed)
    if taken:
        return f"it only takes code away: {taken}"
    if not before["error"]:
        if after["printed"] < before["printed"]:
            return "the cell prints less"
        for what, name in (("passes", "backward passes"), ("steps", "optimizer steps")):
            if after[what] < before[what] and not (criterion.may_do_less or (ends and after[what])):
                return f"{before[what]} {name} become {after[what]}"
    lost = (runs.held(before) if criterion.loose else runs.graded(before)) - runs.graded(after) - runs.cancelled()
    if lost and not (criterion.may_lose or freezing(runs) or remade(runs) or vain):
        return f"{lost.total()} {'parameter gets' if lost.total() == 1 else 'parameters get'} no gradient any more"
    changes = runs.optimized if vain else runs.moved
    lost = changes(before) - changes(after) - runs.cancelled()
    if lost and not (criterion.may_lose or freezing(runs) or remade(runs)):
        return f"{lost.total()} {'parameter stays' if lost.total() == 1 else 'parameters stay'} as at the start"
    if all(map(math.isfinite, before["losses"])) and not all(map(math.isfinite, after["losses"])):
        return "losses are no longer finite"
    for name, value in before["values"].items():
        now = after["values"].get(name)
        if now is None and not (kind in SPEED and name in _spared(texts[0])):
            return f"the cell no longer makes {name}"
        if now is not None and value[3] and not now[3] and not (criterion.may_cut or freezing(runs) or vain):
            return f"{name} no longer has a graph"
    # what follows a line that failed, or that spoilt all that came after it, could not be found before
    spoilt = kind == "nan" and criterion.proof(runs)
    timed = () if kind in SPEED else SPEED  # of a cell that was not to be faster a busy machine tells these
    new = "" if ended else runs.new_findings(WORSE[:1] if spoilt else WORSE, timed)
    return f"another finding comes: {new}" if new else ""


def _ends_early(text: str, new: str = "") -> bool:
    """Whether a loop of a text ends by a condition; of another source, one in a function that is changed.

    >>> old = "def f():\\n    while g(): pass\\ndef h(): return 1"
    >>> _ends_early(old), _ends_early(old, old.replace("1", "2")), _ends_early(old, old.replace("g", "not g"))
    (True, False, True)
    """
    parts = ast.walk(Cell(text).tree)
    if new:
        kept = {ast.dump(n) for n in ast.walk(Cell(new).tree) if isinstance(n, ast.FunctionDef)}
        functions = [n for n in parts if isinstance(n, ast.FunctionDef) and ast.dump(n) not in kept]
        parts = (n for function in functions for n in ast.walk(function))
    return any(isinstance(n, ast.While | ast.Break) for n in parts)


def _spared(text: str) -> set[str]:
    """The names that something faster need not make: what loops count by, what they bind, and what nobody reads."""
    tree = Cell(text).tree
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    loops = [n for loop in ast.walk(tree) if isinstance(loop, ast.For) for n in ast.walk(loop)]
    inside = {n.id for n in loops if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    outside = {n.id for n in names if n not in set(loops)}
    return (inside - outside) | {n.id for n in names if n.id not in read}


def hides(text: str, new: str) -> str:
    """Return how a patch hides what it should mend; "" where it does not.

    Examples
    --------
    >>> hides("loss.backward()", "try:\\n    loss.backward()\\nexcept Exception: pass")
    'it catches the error'
    >>> hides("loss.backward()", "with torch.no_grad():\\n    loss.backward()")
    'it adds no_grad'
    >>> hides("loss.backward(); opt.step()", "loss.backward()")
    'it takes step() away'
    >>> hides("f(x)", "def g(x):\\n    return f(x)\\ng(x)"), hides("f(x)", "def g(x):\\n    return x\\n    f(x)")
    ('', 'it leaves the cell early')
    >>> hides("y = f(x)", "with torch.no_grad():\\n    rows = f(all)\\ny = rows[x]")
    ''
    """
    old, now = _census(text), _census(new, text)
    if now["try"] > old["try"]:
        return "it catches the error"
    for name in _HIDING:
        if now[name] > old[name]:
            return f"it adds {name}"
    for name in _KEPT_CALLS:
        if now[f"{name}()"] < old[f"{name}()"]:
            return f"it takes {name}() away"
    return "it leaves the cell early" if now["leave"] > old["leave"] else ""


def _census(text: str, before: str = "") -> Counter[str]:
    counts: Counter[str] = Counter()
    tree = Cell(text).tree
    spared = _of_new_code(tree, before) if before else set()
    ends = {n.body[-1] for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            counts["try"] += 1
        elif isinstance(node, ast.Attribute | ast.Name) and node not in spared:
            counts[last_name(node)] += 1
        elif isinstance(node, ast.Return | ast.Break | ast.Raise | ast.Continue) and node not in ends:
            counts["leave"] += 1
        if isinstance(node, ast.Call):
            counts[f"{last_name(node.func)}()"] += 1
    return counts


def _of_new_code(tree: ast.Module, before: str) -> set[ast.AST]:
    """Return the names in the heads of `with` blocks that hold no statement of the text before: they hide nothing."""
    known = {ast.dump(n) for n in ast.walk(Cell(before).tree) if isinstance(n, ast.stmt)}
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.With)]
    fresh = [block for block in blocks if not any(ast.dump(s) in known for part in block.body for s in ast.walk(part))]
    return {part for block in fresh for item in block.items for part in ast.walk(item)}


def runs_less(text: str, new: str, ran: dict[int, int], runs: dict[int, int], all_of_them: bool) -> str:
    """Return which line of the old text is in the new one too and runs there less often; "" where there is none.

    all_of_them : where False, a line has to run at all

    >>> runs_less("a\\nb", "if 0:\\n    a\\nb", {1: 1, 2: 1}, {1: 1, 3: 1}, True)
    'line 1 no longer runs'
    >>> runs_less("for i in x:\\n  b", "for i in z:\\n  b", {1: 1, 2: 9}, {1: 1, 2: 1}, True)
    'line 2 runs once instead of 9 times'
    """
    deep = [[len(line) - len(line.lstrip()) for line in t.split("\n")] for t in (text, new)]
    turned = _behind_other_tests(text, new) if all_of_them else set()
    old_lines, new_lines = ([line.strip() for line in t.split("\n")] for t in (text, new))
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for a, b, size in matcher.get_matching_blocks():
        for k in range(1, size + 1):
            before, after = ran.get(a + k, 0), runs.get(b + k, 0)
            if after < before and _only_switches(old_lines[a + k - 1]):  # it might go altogether
                continue
            if before and not after:
                return f"line {a + k} no longer runs"
            moved = deep[0][a + k - 1] > deep[1][b + k - 1]  # out of a loop
            if all_of_them and after < before and not moved and b + k not in turned:
                return f"line {a + k} runs {'once' if after == 1 else f'{after} times'} instead of {before} times"
    return ""


def _behind_other_tests(text: str, new: str) -> set[int]:
    """Return the lines of a new text that run by a condition which the old one has not: its branches, and what follows.

    >>> sorted(_behind_other_tests("if a < b:\\n    f()\\ng()", "if a > b:\\n    f()\\ng()"))
    [2, 3]
    """
    try:
        old, tree = Cell(text).tree, Cell(new).tree
    except SyntaxError:  # parts of a text
        return set()
    known = {ast.dump(n.test) for n in ast.walk(old) if isinstance(n, ast.If)}
    found: set[int] = set()
    for block in [
        b for n in ast.walk(tree) for f in ("body", "orelse", "finalbody") if isinstance(b := getattr(n, f, None), list)
    ]:
        first = next((n for n in block if isinstance(n, ast.If) and ast.dump(n.test) not in known), None)
        if first is not None:
            found |= set(range(first.lineno + 1, (block[-1].end_lineno or first.lineno) + 1))
    return found


def takes_away(text: str, new: str) -> str:
    """Return the code of a statement that a patch takes out, putting none in its place; "" where it does not.

    What only leaves the graph, switches a mode or a check may go: nothing is computed by it.

    >>> takes_away("y = f(x)\\ny.exp()", "y = f(x)"), takes_away("net.eval()\\ny = f(x)", "y = f(x)")
    ('y.exp()', '')
    """
    old, now = ([ast.unparse(s) for s in ast.walk(Cell(t).tree) if isinstance(s, ast.stmt) and not hasattr(s, "body")
                 and not isinstance(s, ast.Pass)] for t in (text, new))  # fmt: skip
    if Counter(now) - Counter(old):
        return ""
    gone = [code for code in Counter(old) - Counter(now) if not _only_switches(code)]
    return gone[0] if gone else ""


def _only_switches(code: str) -> bool:
    """Whether a statement calls nothing but what leaves the graph or switches something.

    >>> _only_switches("h = h.detach()"), _only_switches("h = f(h)"), _only_switches("if h is not None:")
    (True, False, False)
    """
    try:
        nodes = list(ast.walk(syntax.parse(code)))
    except SyntaxError:  # a part of a statement
        return False
    calls = [last_name(n.func) for n in nodes if isinstance(n, ast.Call)]
    return bool(calls) and set(calls) <= _SWITCHES and not any(isinstance(n, ast.BinOp) for n in nodes)
