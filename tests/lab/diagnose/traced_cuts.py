"""Programs for test_traced_rules.py whose graph is cut: by each way to cut it, in series, side by side and on purpose;
and facts of masks, losses and digits that are set to each side of a bound."""

from __future__ import annotations

from lab.diagnose.graph import cut, kept_histories
from lab.diagnose.losses import losses
from lab.diagnose.models import attention_masks
from lab.diagnose.order import Rule
from lab.diagnose.training import start_values
from lab.diagnose.values import lost_digits
from lab.recorder.cell_trace import Trace
from lab.recorder.value_facts import Told
from widgets.record import Stats

from .traced_case import Case

# -- ways to cut -------------------------------------------------------------------------------------------------------

ONCE = "A, B = P(16, 4), P(4, 4)\n{opt}\n{h}\nloss = F.cross_entropy({z}, labels)\nloss.backward()\n{after}"
HELD, STEP = "opt = torch.optim.SGD([A, B], lr=0.1)", "opt.step()"


def once(h: str, z: str = "h @ B", found: bool = True, opt: str = HELD, after: str = STEP) -> Case:
    return Case(cut.cuts, ONCE.format(h=h, z=z, opt=opt, after=after if opt == HELD else "done = 1"), found)


WAYS = {
    "cut by detach": once("h = (x @ A).detach()"),
    "cut by data": once("h = (x @ A).data"),
    "cut by NumPy": once("h = torch.from_numpy((x @ A).detach().numpy())"),
    "cut by NumPy, on two lines": once("a = (x @ A).detach().numpy()\nh = torch.from_numpy(a)"),
    "cut by tolist": once("h = torch.tensor((x @ A).tolist())"),
    "cut by item": once("h = (x @ A).max().item() * x[:, :4]"),
    "cut by item, brought back": once("s = (x @ A).max().item()\nh = torch.tensor(s) * x[:, :4]"),
    "cut by float": once("h = float((x @ A).max()) * x[:, :4]"),
    "cut by a new tensor": once("h = torch.tensor(x @ A)"),
    "cut by a new tensor of a list": once(
        "parts = [(x[k] @ A).sum() for k in range(4)]\nh = torch.tensor(parts) * x[:, :4]"
    ),
    "cut by a parameter": once("h = nn.Parameter(x @ A)"),
    "cut by a cast": once("h = (x @ A).long().float()"),
    "cut by argmax": once("h = (x @ A).argmax(1)[:, None].float() * x[:, :4]"),
    "cut by one_hot": once("h = F.one_hot((x @ A).argmax(1), 4).float()"),
    "cut by no_grad": once("with torch.no_grad():\n    h = x @ A"),
    "cut by inference_mode": once("with torch.inference_mode():\n    h = (x @ A)\nh = h.clone()"),
    "cut by no_grad of a function": once("@torch.no_grad()\ndef f(t):\n    return t @ A\nh = f(x)"),
    "cut by no_grad around a call": once("def f(t):\n    return t @ A\nwith torch.no_grad():\n    h = f(x)"),
    "cut by no_grad in a function": once("def f(t):\n    with torch.no_grad():\n        return t @ A\nh = f(x)"),
    "cut by a switch": once("train = False\nwith torch.set_grad_enabled(train):\n    h = x @ A"),
    "cut by a switch that is off": once("with torch.set_grad_enabled(False):\n    h = x @ A"),
    "cut by a draw": once("h = torch.multinomial((x @ A).softmax(1), 1).float() * x[:, :4]"),
    **{
        f"cut by {sign}": once(f"h = ((x @ A) {sign} 0.5).float()") for sign in (">", ">=", "<", "<=", "==", "!=")
    },
    "cut by a comparison of a sigmoid": once("h = (torch.sigmoid(x @ A) > 0.5).float()"),
    "cut by a comparison of a softmax": once("h = (F.softmax(x @ A, 1) > 0.5).float()"),
    "cut by a comparison by its name": once("h = torch.gt(x @ A, 0.5).float()"),
    "not cut": once("h = x @ A", found=False),
    "cut beside the graph": once("h = x @ A\nn = h.detach().numpy().mean()", found=False),
    "cut with a way around": once("h = x @ A\nh = h - h.max().detach()", found=False),
    **{
        f"cut by NumPy's {name}": once(f"h = (x @ A).detach().numpy()\nh = torch.from_numpy(np.{call}).float()")
        for name, call in {
            "power": "power(h, 2)", "multiply": "multiply(h, 3)", "subtract": "subtract(h, 3)",
            "divide": "divide(h, 3)", "true_divide": "true_divide(h, 3)", "absolute": "absolute(h)",
            "concatenate": "concatenate([h[:32], h[32:]])", "clip": "clip(h, 0, 1)", "tanh": "tanh(h)",
            "asarray": "asarray(h)",
        }.items()
    },
    "cut by two of NumPy's": once(
        "h = (x @ A).detach().numpy()\ng = np.tanh(h)\nh = torch.from_numpy(np.exp(g)).float()"
    ),
    "cut by NumPy in a straight line": once("h = torch.from_numpy(np.tanh((x @ A).detach().numpy()))"),
}  # fmt: skip

# -- several cuts, and cuts that are meant -----------------------------------------------------------------------------

LAYERS = (
    "pairs = [(P(16, 4), P(4, 4)) for k in range(2)]\nC, total = P(4, 4), 0.0\n{opt}\nfor A, B in pairs:\n{body}"
    "total.backward()\ndone = 1"
)
ALL = "opt = torch.optim.SGD([C, *pairs[0], *pairs[1]], lr=0.1)"


def several(*lines: str, opt: str = ALL, found: bool = True) -> Case:
    body = "".join(f"    {line}\n" for line in lines)
    text = LAYERS.format(body=body, opt=opt)
    return Case(cut.cuts, text.replace("done = 1", "opt.step()" if opt else "done = 1"), found)


COPIES = "net, aim = nn.Linear(16, 4), nn.Linear(16, 4)\n{opt}\n{t}\nloss = {loss}\nloss.backward()\n{after}"


def aside(loss: str, t: str = "t = aim(x).detach()", found: bool = True, opt: str = "") -> Case:
    return Case(cut.cuts, COPIES.format(opt=opt or "n = 1", t=t, loss=loss, after="opt.step()" if opt else "n = 2"),
                found)  # fmt: skip


OWN, BOTH = "net.parameters()", "[*net.parameters(), *aim.parameters()]"
SGD = "opt = torch.optim.SGD({of}, lr=0.1)"
SERIES = {
    "a cut in each turn": several("h = (x @ A).detach()", "total = total + (h @ B @ C).square().mean()"),
    "two cuts in each turn": several(
        "h = (x @ A).detach()", "g = (h @ B).detach()", "total = total + (g @ C).square().mean()"
    ),
    "two cuts in each turn, on one line": several(
        "total = total + (((x @ A).detach() @ B).detach() @ C).square().mean()"
    ),
    "a cut in each turn, and no optimizer": several(
        "h = (x @ A).detach()", "total = total + (h @ B @ C).square().mean()", opt=""
    ),
    "cuts that some optimizers hold": several(
        "h = (x @ A).detach()", "total = total + (h @ B @ C).square().mean()",
        opt="opt = torch.optim.SGD([C, pairs[0][1]], lr=0.1)",
    ),
    "two ways to cut in turns": several(
        "h = (x @ A).detach() if A is pairs[0][0] else (x @ A).data", "total = total + (h @ B @ C).square().mean()"
    ),
    "a copy that is compared with": aside("F.mse_loss(net(x), t)"),
    "a copy that is compared with, by its difference": aside("(net(x) - t).square().mean()"),
    "a copy that weighs": aside("(net(x) * t).square().mean()"),
    "a copy that is compared with and weighs": aside("F.mse_loss(net(x), t) + (net(x) * t).mean()"),
    "a copy under no_grad": aside("(net(x) * t).square().mean()", "with torch.no_grad():\n    t = aim(x)"),
    "a copy that is held": aside("F.mse_loss(net(x), t)", opt=SGD.format(of=BOTH)),
    "a copy that is not held": aside("F.mse_loss(net(x), t)", opt=SGD.format(of=OWN)),
    "a copy under no_grad that is held": aside(
        "F.mse_loss(net(x), t)", "with torch.no_grad():\n    t = aim(x)", opt=SGD.format(of=BOTH)
    ),
    "a copy under no_grad that is not held": aside(
        "F.mse_loss(net(x), t)", "with torch.no_grad():\n    t = aim(x)", opt=SGD.format(of=OWN), found=False
    ),
    "an estimator that passes by": aside(
        "F.cross_entropy(h + (net(h) - h).detach(), labels)", "h = aim(x)",
        opt="net = nn.Linear(4, 4)\n" + SGD.format(of=BOTH),
    ),
    "gradients that were asked for": Case(
        cut.cuts, "A, B = P(16, 4), P(4, 4)\nz = (x @ A).detach() @ B\ng = torch.autograd.grad(z.sum(), B)", False
    ),
}  # fmt: skip


def failed(text: str, rule: Rule = cut.nothing_to_do) -> Case:
    return Case(rule, f"{text}\nloss.backward()")


NOTHING = {
    "no graph of data": failed("loss = x.sum()"),
    "no graph of a tensor without a name": failed("loss = torch.ones(3).sum()"),
    "no graph under no_grad": failed("net = nn.Linear(16, 4)\nwith torch.no_grad():\n    loss = net(x).sum()"),
    "no graph of a frozen model": failed("net = nn.Linear(16, 4).requires_grad_(False)\nloss = net(x).sum()"),
    "no graph of a model that is frozen": failed(
        "net = nn.Linear(16, 4)\nfor p in net.parameters():\n    p.requires_grad = False\nloss = net(x).sum()"
    ),
    "no graph, and a model beside": failed("net = nn.Linear(16, 4)\nz = net(x)\nloss = x.sum()"),
    "no graph since gradients are off": failed(
        "net = nn.Linear(16, 4)\ntorch.set_grad_enabled(False)\nloss = net(x).sum()\ntorch.set_grad_enabled(True)"
    ),
    "no graph of indices": failed("w = P(16, 4)\nloss = (x @ w).max(1).indices.float().sum()"),
    "no graph of a comparison": failed("w = P(16, 4)\nloss = ((x @ w) > 0).float().sum()", cut.cuts),
    "no graph of a number": failed("w = P(16, 4)\nloss = torch.tensor((x @ w).sum().item())"),
    "no graph of a number, by numpy": failed("w = P(16, 4)\nloss = torch.tensor((x @ w).sum().detach().numpy() * 2.0)"),
}
DRAWN = {
    "a draw that passes zeros": Case(
        cut.drawn, "net = nn.Linear(16, 4)\np = torch.sigmoid(net(x))\n(torch.bernoulli(p) * x[:, :4]).sum().backward()"
    ),
    "a draw that passes zeros of one weight": Case(
        cut.drawn, "w = P(16, 4)\np = torch.sigmoid(x @ w)\n(torch.bernoulli(p) * x[:, :4]).sum().backward()"
    ),
    "a draw in turns": Case(
        cut.drawn, "net = nn.Linear(16, 4)\nfor k in range(3):\n    p = torch.sigmoid(net(x))\n"
        "    (torch.bernoulli(p) * x[:, :4]).sum().backward()"
    ),
    "a draw with a way around": Case(
        cut.drawn, "net = nn.Linear(16, 4)\np = torch.sigmoid(net(x))\n(torch.bernoulli(p) * p).sum().backward()", False
    ),
}  # fmt: skip

# -- each side of a bound ----------------------------------------------------------------------------------------------

TEXTS = (
    "ids = torch.randint(0, 9, (16, 7))\nemb, head = nn.Embedding(9, 16), nn.Linear(16, 9)\nh = emb(ids[:, :-1])\n"
    "s = h @ h.transpose(1, 2) / 4.0{mask}\no = torch.softmax(s, -1) @ h\n"
    "loss = F.cross_entropy(head(o).reshape(-1, 9), ids[:, {after}].reshape(-1))\nloss.backward()"
)
CAUSAL = " + torch.full((6, 6), float('-inf')).triu(1)"


def targets(same: float, following: float, found: bool, causal: bool = False, zeros: float | None = None) -> Case:
    """Targets that are by such shares the tokens themselves and those that follow; of the weights so many are 0."""

    def facts(trace: Trace) -> None:
        told = trace.values.told
        assert told
        trace.values.told = {row: Told(one.embedding, same, following) for row, one in told.items()}
        for row in trace.rows:
            if row.op == "softmax" and zeros is not None:
                assert row.stats is not None
                row.stats.zeros = zeros

    text = TEXTS.format(mask=CAUSAL if causal else "", after=":-1" if causal else "1:")
    return Case(attention_masks.no_causal_mask, text, found, facts)


def figures(rule: Rule, text: str, op: str, found: bool, **given: float) -> Case:
    """A program of which the results of an op have such figures."""

    def facts(trace: Trace) -> None:
        rows = [row for row in trace.rows if row.op == op and row.phase == "forward"]
        assert rows, [row.op for row in trace.rows]
        for row in rows:
            row.stats = Stats(**{"min": -1.0, "max": 1.0, "mean": 0.0, "std": 1.0, **given})  # type: ignore[arg-type]

    return Case(rule, text, found, facts)


def sums(text: str, op: str, low: float, high: float, found: bool) -> Case:
    """A program of whose probabilities those of a sample sum to so much."""

    def facts(trace: Trace) -> None:
        for row in trace.rows:
            if row.sums is not None or row.op == op:
                row.sums = low, high

    return Case(losses.doubled, text, found, facts)


def lost(share: float, largest: float, whole: bool, found: bool, text: str = "d = s[1:] - s[:-1]") -> Case:
    def facts(trace: Trace) -> None:
        (one,) = trace.values.lost.values()
        one.share, one.largest, one.whole = share, largest, whole

    return Case(lost_digits.lost_digits, f"s = torch.arange(100).float() + 1.7e9\n{text}", found, facts)


NLL, SOFT = "net = nn.Linear(16, 4)\nF.nll_loss(net(x), labels).backward()", "net = nn.Linear(16, 4)\np = {p}\n{end}"
ALONG = SOFT.format(p="F.softmax(net(x), 0)", end="p[torch.arange(64), labels].log().mean().backward()")
ACROSS = SOFT.format(p="F.log_softmax(net(x), 0)", end="F.nll_loss(p, labels).backward()")
KL = (
    "net, t = nn.Linear(16, 4), torch.randn(64, 4).tanh()\nF.kl_div(F.log_softmax(net(x), 1), t, reduction='sum')"
    ".backward()"
)
REACH = "net, t = nn.Linear(16, 4), torch.randn(64, 4) * 1.0\nF.mse_loss(torch.sigmoid(net(x)), t).backward()"
DROP = "a = nn.Linear(16, {n})\nF.dropout(a(x[:4]) * 1.0, 0.5).sum().backward()"
SIDES = {
    "targets of which most follow": targets(0.0, 0.951, True),
    "targets of which fewer follow": targets(0.0, 0.95, False),
    "targets that follow and are the same": targets(0.95, 0.96, False),
    "targets that follow and are mostly the same": targets(0.949, 0.96, True),
    "targets that are the same": targets(0.991, 0.0, True, causal=True),
    "targets that are nearly the same": targets(0.99, 0.0, False, causal=True),
    "targets that are the same and follow": targets(1.0, 0.99, False, causal=True),
    "targets that are the same and mostly follow": targets(1.0, 0.989, True, causal=True),
    "weights of which a twelfth is 0": targets(0.0, 1.0, True, zeros=0.083),
    "weights of which more are 0": targets(0.0, 1.0, False, zeros=0.084),
    "weights of which a third is 0": targets(1.0, 0.0, True, causal=True, zeros=0.334),
    "weights of which fewer are 0": targets(1.0, 0.0, False, causal=True, zeros=0.333),
    "log-probabilities a little above 0": figures(losses.doubled, NLL, "linear", True, max=1.1e-6),
    "log-probabilities at 0": figures(losses.doubled, NLL, "linear", False, max=1e-6),
    "logarithms as a target": figures(losses.doubled, KL, "tanh", True, min=-2.0, max=0.0),
    "probabilities as a target": figures(losses.doubled, KL, "tanh", False, min=-2.0, max=0.1),
    "zeros as a target": figures(losses.doubled, KL, "tanh", False, min=0.0, max=0.0),
    "probabilities that sum to 0.99": sums(ALONG, "softmax", 0.99, 1.0, True),
    "probabilities that sum to more": sums(ALONG, "softmax", 0.991, 1.009, False),
    "probabilities that sum to 1.01": sums(ALONG, "softmax", 1.0, 1.011, True),
    "log-probabilities that sum to 0.99": sums(ACROSS, "log_softmax", 0.99, 1.0, True),
    "log-probabilities that sum to more": sums(ACROSS, "log_softmax", 0.991, 1.009, False),
    "targets just out of reach": figures(start_values.out_of_reach, REACH, "mul", True, min=0.0, max=1.06),
    "targets at the end of reach": figures(start_values.out_of_reach, REACH, "mul", False, min=0.0, max=1.0),
    "targets below reach": figures(start_values.out_of_reach, REACH, "mul", True, min=-0.06, max=1.0),
    "targets of one value": figures(start_values.out_of_reach, REACH, "mul", False, min=3.0, max=3.0),
    "a dropout of 64 values": figures(start_values.dropped_out, DROP.format(n=16), "dropout", True, zeros=0.99),
    "a dropout of fewer values": figures(start_values.dropped_out, DROP.format(n=15), "dropout", False, zeros=0.99),
    "digits that are lost": lost(0.51, 2.0**23, True, True),
    "digits of which half are lost": lost(0.5, 2.0**23, True, False),
    "digits of smaller numbers": lost(0.51, 2.0**23 - 1, True, False),
    "digits of numbers that are told apart": lost(0.51, 2.0**23, False, False),
}

EVERY = (
    "net = nn.Linear(16, 4)\n{before}\nfor k in range({n}):\n    loss = F.cross_entropy(net(x), labels)\n"
    "    {keep}\n{after}"
)


def kept(keep: str, before: str, after: str = "done = 1", found: bool = True, n: int = 4) -> Case:
    return Case(kept_histories.held, EVERY.format(keep=keep, before=before, after=after, n=n), found)


CARRY = (
    "w, h = P(16, 16), torch.zeros(64, 16)\nfor k in range({n}):\n    h = torch.tanh(x @ w + h)\n"
    "    h.sum().backward(retain_graph=True)"
)
LEFT = "net = nn.Linear(16, 4)\n{mode}\ndef judge():\n    seen = []\n    for k in range({n}):\n{body}    {end}\njudge()"


def left(body: str, n: int = 16, found: bool = True, mode: str = "k = 0", end: str = "return len(seen)") -> Case:
    lines = "".join(f"        {line}\n" for line in body.split("; "))
    return Case(kept_histories.held, LEFT.format(mode=mode, n=n, body=lines, end=end), found)


MORE_KEPT = {
    "a set of losses": kept("log.add(loss)", "log = set()"),
    "a queue of losses": kept("log.put(loss)", "import queue\nlog = queue.Queue()"),
    "a dictionary whose lists are added to": kept("log['loss'] += [loss]", "log = {'loss': []}"),
    "a dictionary by default": kept("log.setdefault(k, loss)", "log = {}"),
    "a list that another name has": kept("also.append(loss)", "log = []\nalso = log"),
    "a list in a list": kept("log[0].append(loss)", "log = [[]]"),
    "a list that a call gives": kept("pick().append(loss)", "log = []\ndef pick():\n    return log"),
    "a list of losses, made in turns": kept(
        "log = [F.cross_entropy(net(x + j), labels) for j in range(4)]", "log = []"
    ),
    "three losses of a list": kept("log.append(loss)", "log = []", n=3),
    "two losses of a list": kept("log.append(loss)", "log = []", n=2, found=False),
    "a sum of three losses": kept("total = total + loss", "total = 0.0", n=3),
    "a sum of quotients": kept("total = total + loss / 4", "total = 0.0"),
    "a sum that is taken off": kept("total = total - loss", "total = 0.0", found=False),
    "a sum of what is added up": kept("total = total + (loss + 1.0)", "total = 0.0"),
    "a sum of differences": kept("total = total + (loss - 1.0)", "total = 0.0"),
    "a sum of roots": kept("total = (total + loss).sqrt()", "total = 0.0", found=False),
    "a sum from the right": kept("total = loss + total", "total = 0.0"),
    "a mean that runs, by a difference": kept("total = total + 0.1 * (loss - total)", "total = 0.0"),
    "a sum of matrices": kept("total = total + net(x)", "total = 0.0", found=False),
    "a state that is carried for three turns": Case(kept_histories.held, CARRY.format(n=3)),
    "a state that is carried for two turns": Case(kept_histories.held, CARRY.format(n=2), False),
    "outputs of a function that are left": left("seen.append(net(x))"),
    "outputs of a function that are left, by a name": left("out = net(x); seen.append(out)"),
    "outputs of a function that are left, of a name given twice": left("out = x; out = net(x); seen.append(out)"),
    "outputs of a function that are detached": left("seen.append(net(x).detach())", found=False),
    "outputs of a function, inserted": left("seen.insert(0, net(x))", found=False),
    "outputs of a function, with a number": left("seen.append((k, net(x)))", found=False),
    "outputs of a function in evaluation mode": left("seen.append(net(x))", 3, mode="net.eval()"),
    "two outputs of a function in evaluation mode": left("seen.append(net(x))", 2, mode="net.eval()", found=False),
    "outputs of a function that go on": left(
        "seen.append(net(x))", end="torch.stack(seen).sum().backward()", found=False
    ),
    "losses of a function": left("loss = net(x).sum(); loss.backward(); seen.append(loss)", 3),
    "losses of a function, twice as large": left(
        "loss = net(x).sum(); loss.backward(); seen.append(loss * 2.0)", 3, found=False
    ),
    "a graph that is kept and used": Case(
        kept_histories.held, "w = P(4)\nl = w.square().sum()\nl.backward(retain_graph=True)\nl.backward()", False
    ),
    "a graph that is not kept": Case(
        kept_histories.held, "w = P(4)\nl = w.square().sum()\nl.backward(retain_graph=False)", False
    ),
    "a graph that is kept, with spaces": Case(
        kept_histories.held, "w = P(4)\nl = w.square().sum()\nl.backward(retain_graph = True)"
    ),
}  # fmt: skip

CUTS = WAYS | SERIES | NOTHING | DRAWN | SIDES | MORE_KEPT
