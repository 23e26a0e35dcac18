"""Remedies for data, evaluation, layouts and numbers, as rows: words, the code that they mean, what belongs there."""

# ruff: noqa: E501 - one row a line

from __future__ import annotations

from ..examples import insert, rewrite

# -- copies and other objects ----------------------------------------
rewrite("alias", r"Store a copy, list\((\w+)\)", r"_l.append(\1)", r"_l.append(list(\1))", "Store a copy")
rewrite("alias", r"Keep a copy: append\((\w+)\.clone", r"_l.append(\1)", r"_l.append(\1.clone())", "Keep a copy")
rewrite("alias", r"Keep a copy: append\((\w+)\.clone", r"_l.append((\1, _a, _b))", r"_l.append((\1.clone(), _a, _b))",
        "Keep a copy")  # fmt: skip
rewrite("alias", r"Turn the two shares round", "_a * _t + _b * _p", "_b * _t + _a * _p", "Turn the two shares round")
rewrite(("alias", "rebound"), r"under (?:torch|core)\.no_grad\(\): (.+?)\.?$|with \w+\.no_grad\(\): (.+?)\.?$",
        "_a = _b", "with torch.no_grad():\n    \\1\\2", "Change it where it is")  # fmt: skip
insert("alias", r"every so many steps: (.+?)\.$", r"\1", "Load it at the end of each epoch", "loop end")
insert("alias", r"a set of its own first: (.+?)\.$", r"\1", "Give it a set of its own", "before")
insert("alias", r"Begin with: (if .+?: return)\.$", r"\1", "Look whether it is done", "function")
insert("alias", r"Work on a copy: (\w+) = .+?\.clone\(\)", r"\1 = \1.clone()", "Work on a copy", "before")
rewrite("gradient", r"Differentiate each by itself", "torch.autograd.grad(_g, _x, *_r)",
        "torch.autograd.grad(_g[:, 0].sum(), _x, create_graph=True)", "Differentiate one column", "quoted")  # fmt: skip
insert("gradient", r"Change a copy: \w+ = (\w+)\.clone", r"\1 = \1.clone()", "Change a copy", "before")

# -- graphs ----------------------------------------
rewrite("cut", r"Leave detach\(\) out", "_x.detach()", "_x", "Leave detach() out")
rewrite("gradient", r"multiply the two: (return .+?)\.$", "return _x", r"\1", "Multiply the two")
rewrite(
    "gradient", r"root of the width: \w+ / (\d+) \*\* 0\.5", "_q", r"(_q) / \1 ** 0.5", "Divide by the root", "quoted"
)
rewrite("optimizer", r"Count from 1", "_i % _n == 0", "(_i + 1) % _n == 0", "Count from 1")
rewrite("optimizer", r"clear with zero_grad\(\)", "_o.zero_grad(set_to_none=False)", "_o.zero_grad()", "Clear them",
        "all")  # fmt: skip
insert("mode", r"Call ([\w.\[\]]+\(\w*\)) after ", r"\1", "Keep that part in evaluation mode", "after")
rewrite("mode", r"Say Dropout\(([\d.]+)\)", "nn.Dropout(_p)", r"nn.Dropout(\1)", "Say what is dropped")
insert("unused", r"Call it: (self\.\w+\(\)) at the end of __init__", r"\1", "Call it", "function end")
rewrite("unused", r"next_value \* \(1 - (\w+)\)", "_r + _g * _v", r"_r + _g * _v * (1 - \1.float())",
        "Leave it out at the end", "quoted")  # fmt: skip
rewrite("learning-rate", r"without (\w+)\.$", r"\1 * _x", "_x", "Give the factor alone")

# -- data ----------------------------------------
insert("data", r"Begin each batch anew: (\w+ = None)", r"\1", "Begin each batch anew", "loop")
rewrite("data", r"or the comparison", "_a < _b", "_a > _b", "Turn the comparison")
rewrite("data", r"or the comparison", "_a > _b", "_a < _b", "Turn the comparison")
rewrite("data", r"Bring them to 0 to 1 first", "_a - _m", "_a / 255 - _m", "Bring them to 0 to 1", "quoted")
rewrite("data", r"Scale them once", "_x / 255", "_x", "Scale them once")
rewrite("data", r"Leave the division out", "_a // _b", "_a", "Leave the division out")
rewrite("data", r"Bring both into one order: (\w+)\[(\w+)\]", r"\1", r"\1[\2]", "Bring both into one order")
rewrite(("data", "dtype"), r"fraction stays a float|as floats?|Keep them as float32", "_x.long()", "_x.float()",
        "Keep floats")  # fmt: skip
rewrite("data", r"Take the absolute value", "_x.real", "_x.abs()", "Take the absolute value")
rewrite(("data", "layout"), r"Begin with zeros", "torch.empty(*_r)", "torch.zeros(*_r)", "Begin with zeros")
rewrite(("data", "layout"), r"Begin with zeros", "torch.randn(*_r)", "torch.zeros(*_r)", "Begin with zeros")
rewrite("loop", r"[Ll]eave the random state alone|Set the seed once", "np.random.seed(_i)", "", "Leave the seed out")
rewrite("loop", r"[Ll]eave the random state alone|Set the seed once", "torch.manual_seed(_i)", "", "Leave the seed out")
rewrite("loop", r"[Ll]eave the random state alone|Set the seed once", "random.seed(_i)", "", "Leave the seed out")
insert("loop", r"Feed it: (\w+ = \w+)", r"\1", "Feed it", "loop end")

# -- evaluation ----------------------------------------
rewrite("evaluation", r"Load the part: \w*\.?DataLoader\((\w+)", "torch.utils.data.DataLoader(_d, *_r)",
        r"torch.utils.data.DataLoader(\1, *_r)", "Load the part")  # fmt: skip
rewrite("evaluation", r"Load the part: \w*\.?DataLoader\((\w+)", "DataLoader(_d, *_r)", r"DataLoader(\1, *_r)",
        "Load the part")  # fmt: skip
insert("evaluation", r"anew in each epoch: (.+?)(?: at the top of the loop)?\.$", r"\1", "Begin it anew in each epoch",
       "epoch")  # fmt: skip
rewrite("evaluation", r"what was summed over: (\w+)", "_a / len(_b)", r"_a / len(\1)", "Divide by its own length",
        "quoted")  # fmt: skip
rewrite("evaluation", r"over (\w+)\b.*Go over the other part: (\w+)", r"\1", r"\2", "Go over the other part")
rewrite(
    "evaluation", r"samples of (\w+)\b.*Go over the training part: (\w+)", r"\1", r"\2", "Go over the training part"
)
rewrite("evaluation", r"Count the samples", "_c / (len(_l) * _b)", "_c / len(_l.dataset)", "Count the samples")
rewrite("evaluation", r"With one output hold", "_x.argmax(*_r)", "(_x.squeeze(1) > 0).long()", "Hold it against 0")
rewrite("evaluation", r"smaller decay", "0.9999", "0.9", "A smaller decay")
rewrite("evaluation", r"smaller decay", "0.999", "0.9", "A smaller decay")
rewrite("evaluation", r"A false positive is predicted 1", "(_p == 1) & (_t == 0)", "(_p == 0) & (_t == 1)",
        "Exchange the two", "quoted")  # fmt: skip
rewrite("evaluation", r"A false positive is predicted 1", "(_p == 0) & (_t == 1)", "(_p == 1) & (_t == 0)",
        "Exchange the two", "quoted")  # fmt: skip
rewrite("evaluation", r"Take it away once", "(_i + _e) / (_u + _e)", "(_i + _e) / (_u - _i + _e)", "Take it away once")
rewrite("evaluation", r"Take it away once", "_i / _u", "_i / (_u - _i)", "Take it away once", "quoted")
rewrite("evaluation", r"Hold them against 0\b", "_x > 0.5", "_x > 0", "Hold them against 0")
rewrite("evaluation", r"Hold probabilities against 0\.5", "_x > 0", "_x > 0.5", "Hold them against 0.5")
rewrite(
    "evaluation", r"Make classes of them first", "_a == _b", "(_a > 0.5) == _b", "Make classes of them first", "quoted"
)
rewrite("evaluation", r"Make classes of them first", "_a == _b", "_a.argmax(1) == _b", "Make classes of them first",
        "quoted")  # fmt: skip
rewrite("evaluation", r"Recall divides", "_c.diag() / _c.sum(0)", "_c.diag() / _c.sum(1)", "Divide by the rows")
rewrite("evaluation", r"Recall divides", "_c.diag() / _c.sum(1)", "_c.diag() / _c.sum(0)", "Divide by the columns")
rewrite("evaluation", r"Take the places", "_p, _q = _x.max(*_r)", "_q, _p = _x.max(*_r)", "Take the places")
rewrite("evaluation", r"Divide by the number of batches", "len(_l.dataset)", "len(_l)", "Divide by the batches")
rewrite("evaluation", r"Compare the other way round: if (\w+) < (\w+)", (r"\1 > \2", r"\2 = _c"),
        (r"\1 < \2", r"\2 = float('inf')"), "Compare the other way round")  # fmt: skip
rewrite("evaluation", r"Compare the other way round", "_a > _b", "_a < _b", "Compare the other way round")
rewrite(
    "evaluation", r"training samples \(`(\w+) < \w+`.*Compare (\w+) with the best", r"\1", r"\2", "Compare the other"
)
rewrite("evaluation", r"Take the steps before it alone", "F.avg_pool1d(_s, _k, stride=1, padding=_p)",
        "F.avg_pool1d(F.pad(_s, (_k - 1, 0)), _k, stride=1)", "Pad the left side")  # fmt: skip
rewrite("evaluation", r"Split by time", "torch.utils.data.random_split(_d, [_a, _b], *_r)",
        "torch.utils.data.Subset(_d, range(_a)), torch.utils.data.Subset(_d, range(_a, _a + _b))", "Split by time")  # fmt: skip
rewrite("evaluation", r"Begin where the other ends: (\w+)\[(.+?)\]", r"\1[_s]", r"\1[\2]", "Begin where the other ends")
insert("evaluation", r"Switch the dropout layers on again: for m in (\w+)\.modules",
       "for m in \\1.modules():\n    if isinstance(m, nn.Dropout): m.train()", "Switch dropout on", "before")  # fmt: skip

# -- layouts ----------------------------------------
rewrite("layout", r"Name the rows as well: \w+\[\w+\.arange\((\w+)\.", r"_q[:, \1]",
        r"_q[torch.arange(len(\1)), \1]", "Name the rows")  # fmt: skip
rewrite("layout", r"Gather along the actions", "_q.gather(0, _i)", "_q.gather(1, _i)", "Gather along the actions")
rewrite("layout", r"Leave it out: m = \((\w+) != (\w+)\)", "torch.mean(_h, *_r)",
        r"((_h * (\1 != \2)[..., None]).sum(1) / (\1 != \2).sum(1, keepdim=True))", "Leave padding out")  # fmt: skip
rewrite("layout", r"Put an activation between", "_f(_x)", "_f(_x.relu())", "Put an activation between", "quoted")
rewrite("layout", r"Keep it as \(1, positions", "self._p[: _x.size(0)]", "self._p[: _x.size(1)].transpose(0, 1)",
        "Number the tokens")  # fmt: skip
rewrite("layout", r"Divide by the sum at each node: .*index_add\(0, (\w+)", "torch.softmax(_e, *_r)",
        r"(_e.exp() / _e.new_zeros(int(\1.max()) + 1).index_add(0, \1, _e.exp())[\1])", "Divide at each node")  # fmt: skip
rewrite("mask", r"Fill with float", "_s.masked_fill(_m, _v)", "_s.masked_fill(_m, float('-inf'))", "Fill with -inf")
rewrite("mask", r"Mask the scores", "_s.softmax(*_r) * _m", "_s.masked_fill(_m == 0, float('-inf')).softmax(*_r)",
        "Mask the scores")  # fmt: skip
rewrite("mask", r"Mask the scores", "torch.softmax(_s, *_r) * _m",
        "torch.softmax(_s.masked_fill(_m == 0, float('-inf')), *_r)", "Mask the scores")  # fmt: skip

rewrite("loop", r"gets a copy", "np.random.RandomState(*_r)", "np.random", "Draw from NumPy's own generator")
rewrite("loop", r"gets a copy", "random.Random(*_r)", "random", "Draw from Python's own generator")
rewrite("learning-rate", r"Make it of (\w+)\.$", "_f(_o, *_r)", r"_f(\1, *_r)", "Make it of the other", "quoted")

# -- numbers ----------------------------------------
rewrite("dtype", r"numbers by ([\d.e-]+) .*a step near 1e-3", r"\1", "1e-3", "A step near 1e-3", "all")
rewrite("dtype", r"adds ([\d.e-]+) to values of at most", r"\1", "1e-20", "A smaller eps")
rewrite("dtype", r"differences? of a running sum", ("_a - _b", "_x.cumsum(*_r)"),
        ("(_a - _b).float()", "_x.double().cumsum(*_r)"), "Sum in float64", "quoted")  # fmt: skip
rewrite("dtype", r"squared distances", "(_a ** 2).sum(*_r) + (_b ** 2).sum(*_s) - 2 * _a @ _b.T",
        "((_a[:, None] - _b[None]) ** 2).sum(-1)", "Take the differences themselves")  # fmt: skip
rewrite("dtype", r"zeros_like\(\.\.\., dtype", "torch.zeros_like(_x)", "torch.zeros_like(_x, dtype=torch.float32)",
        "Make it of float32", "all")  # fmt: skip
rewrite("dtype", r"log1p", "torch.log(1 + _x)", "torch.log1p(_x)", "Use log1p")
rewrite("dtype", r"expm1", "torch.exp(_x) - 1", "torch.expm1(_x)", "Use expm1")
rewrite("dtype", r"Keep the weights in float32", "_m.to(torch.bfloat16)", "_m", "Keep them in float32")
rewrite("dtype", r"Keep the weights in float32", "_m.bfloat16()", "_m", "Keep them in float32")
rewrite("dtype", r"Keep the weights in float32", "_m.half()", "_m", "Keep them in float32")
for _narrow in ("torch.bfloat16", "torch.float16"):
    rewrite(
        "dtype", r"Keep the (?:weights|average) in float32", _narrow, "torch.float32", "Keep them in float32", "all"
    )
for _from in ("_x[0]", "_x.min()"):
    for _cast in ("torch.from_numpy({}).float()", "torch.tensor({}, dtype=torch.float32)", "np.float32({})",
                  "({}).astype(np.float32)", "({}).float()"):  # fmt: skip
        rewrite("dtype", r"Take the first one away", _cast.format("_x"), _cast.format(f"_x - {_from}"),
                "Take the first one away")  # fmt: skip
rewrite("dtype", r"Take the first one away", "torch.tensor(_x)", "torch.tensor(_x, dtype=torch.float64)",
        "Keep them in float64")  # fmt: skip
rewrite("dtype", r"Make them float", "torch.uint8", "torch.float32", "Compute in floats", "all")
rewrite("dtype", r"Add up in float32", "torch.float16", "torch.float32", "Add up in float32", "all")
rewrite("nan", r"Compute it in float32: x\.float\(\) before (\w+)", r"torch.\1(_x, *_r)", r"_x.float().\1(*_r)",
        "Compute it in float32")  # fmt: skip
rewrite("exploding", r"Normalise in each pass", "_t = _v", "_t = _v\n_t = _t / _t.norm()", "Normalise in each pass")
for _made in ("torch.Tensor(_x)", "torch.FloatTensor(_x)", "torch.tensor(_x)", "torch.tensor(_x, dtype=torch.float32)"):
    rewrite("dtype", r"in float64 or int64", ("_a - _b", _made),
            ("(_a - _b).float()", "torch.tensor(_x, dtype=torch.float64)"), "Subtract in float64")  # fmt: skip
    rewrite("dtype", r"in float64 or int64", ("_a % _b", _made),
            ("(_a % _b).float()", "torch.tensor(_x, dtype=torch.float64)"), "Take the remainder in float64")  # fmt: skip
rewrite("dtype", r"Divide with a rest", "_a // _b", "_a / _b", "Divide with a rest")

for _narrow in ("_x.type_as(_y)", "_x.to(torch.bfloat16)", "_x.to(torch.float16)", "_x.bfloat16()", "_x.half()"):
    rewrite("dtype", r"Count in int64 or float32", _narrow, "_x", "Count in whole numbers")
rewrite("learning-rate", r"before backward\(\): \(\w+ / (\w+)\)", "_l.backward()", r"(_l / \1).backward()",
        "Divide each loss")  # fmt: skip

for _log in ("log", "log10", "log2"):
    for _form in (f"torch.{_log}(_x)", f"_x.{_log}()"):
        rewrite("nan", r"Keep its argument above 0", _form, f"torch.{_log}(_x + 1e-8)", "Keep it above 0")

# -- several places ----------------------------------------
rewrite(
    "nan", r"large finite number", '_s.masked_fill(_m, float("-inf"))', "_s.masked_fill(_m, -1e9)", "A finite number"
)
rewrite("evaluation", r"call \w+ once", ("_l.append(_f(_a, _b))", "sum(_l) / len(_l)"),
        ("_l.append((_a, _b))", "_f(torch.cat([p for p, _ in _l]), torch.cat([t for _, t in _l]))"),
        "Collect them, and call it once")  # fmt: skip
rewrite("evaluation", r"(?:exponential|root) once at the end", ("_s += _f(_x)", "_s / _n"), ("_s += _x", "_f(_s / _n)"),
        "Once at the end")  # fmt: skip
rewrite("evaluation", r"root once at the end", ("_s += torch.sqrt(_x).item()", "_s / _n"),
        ("_s += _x.item()", "(_s / _n) ** 0.5"), "Once at the end")  # fmt: skip
rewrite("evaluation", r"figures of the training part, and scale", ("_x = (_x - _x.mean(*_r)) / _x.std(*_r)",
        "_t = (_t - _t.mean(*_r)) / _t.std(*_r)"), ("pass", "_x = (_x - _t.mean(*_r)) / _t.std(*_r)\n"
        "_t = (_t - _t.mean(*_r)) / _t.std(*_r)"), "Scale it by the training part")  # fmt: skip
rewrite("loss", r"Draw it once, add that", ("_f(_p, torch.randn_like(_x))", "_a = _b + _c * torch.randn_like(_y)"),
        ("_f(_p, noise)", "noise = torch.randn_like(_y)\n_a = _b + _c * noise"), "Draw it once")  # fmt: skip
rewrite("loss", r"Draw it once, add that", ("_f(_p, torch.randn_like(_x))", "_a = _b + torch.randn_like(_y)"),
        ("_f(_p, noise)", "noise = torch.randn_like(_y)\n_a = _b + noise"), "Draw it once")  # fmt: skip
rewrite("loss", r"Take the root here too", "(1 - _a) * _n", "(1 - _a).sqrt() * _n", "Take the root here too")
rewrite("loss", r"Take the root here too", "_a * _n", "_a.sqrt() * _n", "Take the root here too", "quoted")
insert("evaluation", r"Copy them as well: (for .+?)\.$", r"\1", "Copy the buffers as well", "after")
rewrite("error", r"needs a row more: (.+?)\.$", "_q", r"\1", "A row more", "quoted")

# -- masks, orders and parts that rows above leave ----------------------------------------
rewrite("layout", r"Mask the scores, and take the softmax of those", ("_w = _w.masked_fill(_m, _v)",
        "_w = torch.softmax(_s, *_r)"), ("", "_w = torch.softmax(_s.masked_fill(_m, float('-inf')), *_r)"),
        "Mask the scores", "all")  # fmt: skip
rewrite("layout", r"Take a slice, the first so many", "self._p[_x.size(1)]", "self._p[:_x.size(1)].transpose(0, 1)",
        "Number the tokens")  # fmt: skip
rewrite("layout", r"Leave the permutation out", ("_r(_x.permute(1, 0, 2))", "_o[-1]"), ("_r(_x)", "_o[:, -1]"),
        "Leave the permutation out")  # fmt: skip
rewrite("layout", r"Leave the permutation out", ("_r(_x.transpose(0, 1))", "_o[-1]"), ("_r(_x)", "_o[:, -1]"),
        "Leave the permutation out")  # fmt: skip
rewrite("loss", r"Take it out of the sum: (\w+) \* \(1 - ", r"\1.sum(*_r)", r"(\1 * (1 - torch.eye(len(\1)))).sum(*_r)",
        "Take it out of the sum", "all")  # fmt: skip
rewrite("loss", r"Stop the gradient of the one: (\w+)\.detach", r"_f(_p, _z)", "_f(_p, _z.detach())",
        "Stop the gradient of the one", "quoted")  # fmt: skip
rewrite("data", r"Go from the end: .*, and (\w+)\.insert\(0, (\w+)\)", ("_q", r"\1.append(\2)"),
        ("reversed(_q)", r"\1.insert(0, \2)"), "Go from the end", "loops")  # fmt: skip
for _sub, _new in (("_a - _b", "_a.float() - _b.float()"), ("_a + _b", "_a.float() + _b.float()")):
    rewrite("dtype", r"Make them float", _sub, _new, "Make them float first", "quoted")
for _made in ("torch.sum(torch.exp(_z), *_r)", "torch.exp(_z).sum(*_r)"):
    for _log in ("torch.log(1 + _x)", "torch.log1p(_x)"):
        rewrite("nan", r"Subtract the maximum", (f"_x = {_made}", _log),
                ("_x = torch.logsumexp(nn.functional.pad(_z, (1, 0)), *_r)", "_x"), "Take logsumexp with a 0", "all")  # fmt: skip
