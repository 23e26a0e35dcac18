"""Programs for test_traced_rules.py that train: what a step goes by, what it holds, what it leaves out."""

from __future__ import annotations

from typing import Any

from lab.diagnose.graph import missing_gradients
from lab.diagnose.order import Rule
from lab.diagnose.training import training_steps
from lab.diagnose.values import growing_values
from lab.recorder.cell_trace import Trace

from .traced_case import Case, by_name

NET = "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
TWO = (
    "a, b = nn.Linear(16, 8), nn.Linear(8, 4)\none = torch.optim.SGD(a.parameters(), lr=0.1)\n"
    "two = torch.optim.SGD(b.parameters(), lr=0.1)\n"
)
LOSS, BOTH = "F.cross_entropy(net(x), labels)", "F.cross_entropy(b(a(x)), labels)"


def each(rule: Rule, *lines: str, head: str = NET, times: int = 4, found: bool = True, after: str = "") -> Case:
    """A loop of some lines; `L` computes the loss and goes backward, `LL` of two layers."""
    short = {"L": f"{LOSS}.backward()", "LL": f"{BOTH}.backward()", "Z": "opt.zero_grad()", "S": "opt.step()"}
    body = "".join(f"    {short.get(line, line)}\n" for line in lines)
    return Case(rule, f"{head}for k in range({times}):\n{body}{after}", found)


PILED = {
    "gradients that pile up": each(training_steps.piled_up, "L", "S"),
    "gradients that pile up, cleared before": each(training_steps.piled_up, "L", "S", head=NET + "opt.zero_grad()\n"),
    "gradients that pile up, cleared by epochs": Case(
        training_steps.piled_up,
        NET + f"for e in range(2):\n    opt.zero_grad()\n    for k in range(3):\n        {LOSS}.backward()\n"
        "        opt.step()",
    ),
    "gradients that pile up, cleared in two places": each(
        training_steps.piled_up, "L", "S", head=NET + "opt.zero_grad()\nopt.zero_grad()\n"
    ),
    "gradients that pile up, cleared by the model": each(
        training_steps.piled_up, "L", "S", head=NET + "net.zero_grad()\n"
    ),
    "gradients that pile up, cleared after": each(training_steps.piled_up, "L", "S", after="opt.zero_grad()"),
    "gradients of one of two that pile up": each(
        training_steps.piled_up, "one.zero_grad()", "LL", "one.step()", "two.step()", head=TWO
    ),
    "gradients of the first of two that pile up": each(
        training_steps.piled_up, "two.zero_grad()", "LL", "one.step()", "two.step()", head=TWO
    ),
    "gradients of an optimizer of a list that pile up": each(
        training_steps.piled_up, "L", "opts[0].step()", head=NET + "opts = [opt]\n"
    ),
    "gradients of an optimizer of no name that pile up": each(
        training_steps.piled_up, "L", "(opt or 3).step()"
    ),
    "gradients by hand that pile up": each(
        training_steps.piled_up, "F.cross_entropy(x @ w + v, labels).backward()",
        "with torch.no_grad(): w -= 0.1 * w.grad; v -= 0.1 * v.grad", head="w, v = P(16, 4), P(4)\n",
    ),
    "gradients that are cleared": each(training_steps.piled_up, "Z", "L", "S", found=False),
}  # fmt: skip

UNSTEPPED = {
    "one of two that nothing steps": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "LL", "one.step()", head=TWO
    ),
    "one of two that nothing steps, and two calls": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "LL", "one.step()", "LL", "one.step()",
        head=TWO,
    ),
    "one of two that nothing steps, and the calls of a third": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad(); three.zero_grad()",
        "F.cross_entropy(c(b(a(x))), labels).backward()", "one.step()", "three.step()",
        head=TWO + "c = nn.Linear(4, 4)\nthree = torch.optim.SGD(c.parameters(), lr=0.1)\n",
    ),
    "one of two that nothing steps, each of a loss": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "a(x).square().mean().backward()",
        "one.step()", "b(x[:, :8]).square().mean().backward()", head=TWO,
    ),
    "one of two that nothing steps, without a bias": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "LL", "one.step()",
        head=TWO.replace("nn.Linear(8, 4)", "nn.Linear(8, 4, bias=False)"),
    ),
    "both of two that are stepped": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "LL", "one.step()", "two.step()", head=TWO,
        found=False,
    ),
    "one of two without gradients": each(
        training_steps.other_stepped, "one.zero_grad(); two.zero_grad()", "a(x).square().mean().backward()",
        "one.step()", head=TWO, found=False,
    ),
    "one of two in a function": Case(
        training_steps.other_stepped,
        "def train(a, b):\n    one, two = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.Adam(b.parameters())\n"
        f"    for k in range(4):\n        one.zero_grad(); two.zero_grad()\n        {BOTH}.backward()\n"
        "        one.step()\ntrain(nn.Linear(16, 8), nn.Linear(8, 4))", False,
    ),
    "one of two in a function, each on its line": Case(
        training_steps.other_stepped,
        "def train(a, b):\n    one = torch.optim.SGD(a.parameters(), lr=0.1)\n"
        "    two = torch.optim.SGD(b.parameters(), lr=0.1)\n"
        f"    for k in range(4):\n        one.zero_grad(); two.zero_grad()\n        {BOTH}.backward()\n"
        "        one.step()\na, b = nn.Linear(16, 8), nn.Linear(8, 4)\ntrain(a, b)",
    ),
}  # fmt: skip

CLEARED = {
    "gradients that are cleared before the step": each(training_steps.cleared, "L", "Z", "S"),
    "gradients that are cleared before the step, by the model": each(
        training_steps.cleared, "L", "net.zero_grad()", "S"
    ),
    "gradients that are cleared in a function": each(
        training_steps.cleared, "L", "step()", head=NET + "def step():\n    opt.zero_grad()\n    opt.step()\n"
    ),
    "gradients that are cleared on the step's line": each(training_steps.cleared, "L", "opt.zero_grad(); opt.step()"),
    "gradients that are cleared on backward's line": each(
        training_steps.cleared, f"{LOSS}.backward(); opt.zero_grad()", "S"
    ),
    "a step before backward": each(training_steps.cleared, "Z", "S", "L"),
    "a step after the loop that is cleared": each(training_steps.cleared, "L", "Z", after="opt.step()"),
    "gradients that are 0": each(
        training_steps.cleared, "Z", "(net(x) * 0.0).sum().backward()", "S", found=False
    ),
    "gradients that are 0, by a function": each(
        training_steps.cleared, "clear()", "(net(x) * 0.0).sum().backward()", "S",
        head=NET + "def clear():\n    opt.zero_grad()\n", found=False,
    ),
}  # fmt: skip

STRANGERS = NET + "net = nn.Linear(16, 4)\n"


def strangers(times: int, count: int) -> Any:
    """As if so many of so many steps were of an optimizer whose parameters got nothing."""

    def facts(trace: Trace) -> None:
        trace.steps.idle_always = None
        trace.steps.idle = None
        trace.steps.strangers = trace.steps.last_step, times
        trace.steps.count = count

    return facts


HELD = {
    "a step of another model": each(training_steps.nothing_held, "Z", "L", "S", head=STRANGERS),
    "a step of another model, of two optimizers": each(
        training_steps.nothing_held, "Z", "L", "S", head=STRANGERS + "more = torch.optim.Adam(net.parameters())\n"
    ),
    "a step of another model of another name": each(
        training_steps.nothing_held, "Z", "F.cross_entropy(other(x), labels).backward()", "S",
        head="other = nn.Linear(16, 4)\n" + NET,
    ),
    "a step of another model of another name, one weight": each(
        training_steps.nothing_held, "Z", "F.cross_entropy(other(x), labels).backward()", "S",
        head="other = nn.Linear(16, 4, bias=False)\n" + NET,
    ),
    "a step of a tensor": each(
        training_steps.nothing_held, "Z", "F.cross_entropy(x @ w, labels).backward()", "S",
        head="w, v = P(16, 4), P(3)\nopt = torch.optim.SGD([v], lr=0.1)\n",
    ),
    "a step without backward": each(training_steps.nothing_held, "Z", LOSS, "S"),
    "a step of what an op has read": each(
        training_steps.nothing_held, "Z", "h = net(x).detach()", "F.cross_entropy(w * h, labels).backward()", "S",
        head=NET + "w = P(4)\n", found=False,
    ),
    "steps of strangers": each(training_steps.nothing_held, "Z", "L", "S")._replace(facts=strangers(2, 5)),
    "steps of strangers, just too few": each(training_steps.nothing_held, "Z", "L", "S", found=False)._replace(
        facts=strangers(2, 7)
    ),
    "a single step of strangers": each(training_steps.nothing_held, "Z", "L", "S", found=False)._replace(
        facts=strangers(1, 2)
    ),
}  # fmt: skip

REMADE = by_name(training_steps.remade)
ANEW = {
    "an Adam in each turn": each(
        training_steps.made_anew, "opt = torch.optim.Adam(net.parameters(), lr=0.01)", "Z", "L", "S"
    ),
    "an Adam in each of two turns": each(
        training_steps.made_anew, "opt = torch.optim.Adam(net.parameters(), lr=0.01)", "Z", "L", "S", times=2,
        found=False,
    ),
    "an Adam in each step of a function": each(
        training_steps.made_anew, "train()", head=NET + "def train():\n"
        "    opt = torch.optim.Adam(net.parameters(), lr=0.01)\n"
        f"    opt.zero_grad(); {LOSS}.backward(); opt.step()\n"
    ),
    "an Adam of a function": each(
        training_steps.made_anew, "opt = make()", "Z", "L", "S",
        head=NET + "kind = torch.optim.Adam\ndef make():\n    return kind(net.parameters(), lr=0.01)\n",
    ),
    "an SGD in each turn": each(
        training_steps.made_anew, "opt = torch.optim.SGD(net.parameters(), lr=0.01)", "Z", "L", "S", found=False
    ),
    "an Adam in each of few turns": each(
        training_steps.made_anew, "if k % 2: opt = torch.optim.Adam(net.parameters(), lr=0.01)", "Z", "L", "S",
        times=8, found=False,
    ),
    "a model in each turn": each(
        REMADE, "net = nn.Linear(16, 4)", "opt = torch.optim.SGD(net.parameters(), lr=0.1)", "Z", "L",
        "S", times=3,
    ),
    "a model in each of two turns": each(
        REMADE, "net = nn.Linear(16, 4)", "opt = torch.optim.SGD(net.parameters(), lr=0.1)", "Z", "L",
        "S", times=2, found=False,
    ),
    "a model in each turn of a function": each(
        REMADE, "train()", times=3, head="def train():\n    net = nn.Linear(16, 4)\n"
        f"    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n    {LOSS}.backward()\n    opt.step()\n",
    ),
    "a model in each turn of a function, of two": each(
        REMADE, "train(k)", times=4, head="def train(k):\n    if k:\n"
        "        net = nn.Linear(16, 4)\n    else:\n        net = nn.Linear(16, 4, bias=False)\n"
        f"    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n    {LOSS}.backward()\n    opt.step()\n",
    ),
    "a model for each of several kinds": each(
        REMADE, "net = nn.Linear(16, 4)",
        "opt = [torch.optim.SGD, torch.optim.Adam, torch.optim.SGD][k](net.parameters(), lr=0.1)", "Z", "L", "S",
        times=3, found=False,
    ),
    "a model for each of several rates": each(
        REMADE, "net = nn.Linear(16, 4)",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1 * (k + 1))", "Z", "L", "S", times=3, found=False,
    ),
    "a model for each of several steps": each(
        REMADE, "net = nn.Linear(16, 4)", "opt = torch.optim.SGD(net.parameters(), lr=0.1)", "Z", "L",
        "S", "L", "S", times=3, found=False,
    ),
}  # fmt: skip

DROPPED = {
    "batches that count for nothing": each(training_steps.dropped, "Z", "L", "if k % 2: opt.step()", times=8),
    "batches that count for nothing, cleared twice": each(
        training_steps.dropped, "Z", "L", "if k % 2: opt.step(); opt.zero_grad()", times=8
    ),
    "batches that count for nothing, cleared by a function": each(
        training_steps.dropped, "clear()", "L", "if k % 2: opt.step()", times=8,
        head=NET + "def clear():\n    net.zero_grad(); opt.zero_grad()\n",
    ),
    "a step after the loop that clears": each(training_steps.dropped, "Z", "L", after="opt.step()"),
    "a step after a loop of two": each(training_steps.dropped, "Z", "L", after="opt.step()", times=2, found=False),
    "a step after a loop of three": each(training_steps.dropped, "Z", "L", after="opt.step()", times=3),
    "gradients that are looked at": each(
        training_steps.dropped, "Z", "L", "n = net.weight.grad.norm()", "if k % 2: opt.step()", times=8, found=False
    ),
    "gradients of autograd beside": each(
        training_steps.dropped, "Z", "L", "g = torch.autograd.grad(net(x).sum(), net.weight)",
        "if k % 2: opt.step()", times=8,
    ),
    "batches that add up": each(
        training_steps.dropped, "L", "if k % 2: opt.step(); opt.zero_grad()", times=8, found=False
    ),
}  # fmt: skip

NEVER = {
    "no step in three turns": each(training_steps.never_stepped, "Z", "L", times=3),
    "no step in two turns": each(training_steps.never_stepped, "Z", "L", times=2, found=False),
    "no step, and an optimizer that is not cleared": each(training_steps.never_stepped, "L"),
    "no step, and no optimizer": each(
        training_steps.never_stepped, "L", head="net = nn.Linear(16, 4)\n", found=False
    ),
    "a step that never runs": each(training_steps.never_stepped, "Z", "L", "if k > 9: opt.step()"),
    "a step that never runs, and a schedule that does": each(
        training_steps.never_stepped, "Z", "L", "sched.step()",
        head=NET + "sched = torch.optim.lr_scheduler.StepLR(opt, 2)\n",
    ),
    "a step that is named": each(training_steps.never_stepped, "Z", "L", "opt.step"),
    "another that is named": each(training_steps.never_stepped, "Z", "L", "opt.state"),
    "parameters that are bound anew": each(
        training_steps.never_stepped, "Z", "L", "for p in net.parameters(): p = p - 0.1 * p.grad"
    ),
    "parameters that are bound anew, by pairs": each(
        training_steps.never_stepped, "Z", "L", "for n, p in net.named_parameters(): p = p - 0.1 * p.grad"
    ),
    "parameters that are read": each(
        training_steps.never_stepped, "Z", "L", "for p in net.parameters(): q = p - 0.1 * p.grad"
    ),
    "parameters that are bound to another": each(
        training_steps.never_stepped, "Z", "L", "for p in net.parameters(): p = p.detach()"
    ),
    "steps by hand": each(
        training_steps.never_stepped, "Z", "L", "with torch.no_grad(): net.weight -= 0.1 * net.weight.grad",
        found=False,
    ),
}  # fmt: skip

CLIP = "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
CLIPPED = {
    "clipped after the step in a loop": each(training_steps.clipped_late, "Z", "L", "S", CLIP),
    "clipped after the step, by values": each(
        training_steps.clipped_late, "Z", "L", "S", "nn.utils.clip_grad_value_(net.parameters(), 1.0)"
    ),
    "clipped before the loss": each(training_steps.clipped_late, CLIP, "Z", "L", "S"),
    "clipped just before backward": each(training_steps.clipped_late, "Z", CLIP, "L", "S"),
    "clipped before backward, cleared at the end": each(
        training_steps.clipped_late, CLIP, "L", "S", "Z"
    ),
    "clipped between": each(training_steps.clipped_late, "Z", "L", CLIP, "S", found=False),
    "clipped twice": each(training_steps.clipped_late, "Z", "L", CLIP, "S", CLIP, found=False),
    "clipped on the step's line": each(training_steps.clipped_late, "Z", "L", f"opt.step(); {CLIP}", found=False),
    "clipped in a function": each(
        training_steps.clipped_late, "Z", "L", "S", "clip()", head=NET + f"def clip():\n    {CLIP}\n", found=False
    ),
    "clipped after the loop": each(training_steps.clipped_late, "Z", "L", "S", after=CLIP, found=False),
}  # fmt: skip

# -- parameters without a gradient -------------------------------------------------------------------------------------

PARTS = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {made}\n"
    "    def forward(self, x):\n        {ran}\nnet = Net()\n{opt}\nloss = {loss}\nloss.backward()\n{after}"
)
OPT = "opt = torch.optim.SGD(net.parameters(), lr=0.1)"


def parts(
    ran: str, made: str = "self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 4)", opt: str = OPT, found: bool = True,
    loss: str = LOSS, after: str = "opt.step()", rule: Rule = missing_gradients.missing,
) -> Case:  # fmt: skip
    after = after if opt else "done = 1"
    return Case(rule, PARTS.format(made=made, ran=ran, opt=opt, loss=loss, after=after), found)


MISSING = {
    "a part that nothing reads": parts("return self.a(x)"),
    "a part that nothing reads, of one weight": parts(
        "return self.a(x)", "self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 4, bias=False)"
    ),
    "a part that nothing reads, on its line": parts(
        "return self.a(x)", "self.a = nn.Linear(16, 4)\n        self.b = nn.Linear(16, 4)"
    ),
    "a part that nothing reads, in a list": parts(
        "return self.a[0](x)", "self.a = nn.ModuleList([nn.Linear(16, 4), nn.Linear(16, 4)])"
    ),
    "a part that nothing reads, and no optimizer": parts("return self.a(x)", opt=""),
    "a part that nothing reads, held by nobody": parts(
        "return self.a(x)", opt="opt = torch.optim.SGD(net.a.parameters(), lr=0.1)"
    ),
    "a part under no_grad": parts("with torch.no_grad():\n            h = self.b(x)\n        return self.a(x) + h"),
    "a part aside": parts("h = self.b(x).sum()\n        return self.a(x)"),
    "a part aside, of one weight": parts(
        "h = self.b(x).sum()\n        return self.a(x)",
        "self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 4, bias=False)",
    ),
    "a part aside, and no optimizer": parts(
        "h = self.b(x).sum()\n        return self.a(x)", "self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 3)", opt=""
    ),
    "a part aside, held by nobody": parts(
        "h = self.b(x).sum()\n        return self.a(x)", "self.a, self.b = nn.Linear(16, 4), nn.Linear(16, 3)",
        opt="opt = torch.optim.SGD(net.a.parameters(), lr=0.1)",
    ),
    "a part aside like another, and no optimizer": parts("h = self.b(x).sum()\n        return self.a(x)", opt=""),
    "a part aside, as a number": parts("h = self.b(x).sum().item()\n        return self.a(x)"),
    "a part aside, as a number that goes on": parts(
        "h = torch.tensor(self.b(x).sum().item())\n        return self.a(x) + h"
    ),
    "a part aside, by indices": parts("h = self.b(x).argmax(1)\n        return self.a(x)"),
    "a part by indices alone": parts("h = self.b(x).max(1)\n        return self.a(x) + h.indices[:, None]"),
    "all parts": parts("return self.a(x) + self.b(x)", found=False),
    "a copy that is run": parts(
        "return self.a(x)", "self.a = nn.Linear(16, 4)",
        opt="import copy\nold = copy.deepcopy(net)\nh = old(x).sum()\n" + OPT,
    ),
    "a part of another form that is run": parts(
        "return self.a(x)", "self.a = nn.Linear(16, 4)", opt="old = nn.Linear(16, 5)\nh = old(x).sum()\n" + OPT
    ),
    "frozen and held": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="for p in net.a.parameters():\n    p.requires_grad = False\n" + OPT, rule=missing_gradients.frozen,
    ),
    "frozen and held, by a call": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="net.a.requires_grad_(False)\n" + OPT, rule=missing_gradients.frozen,
    ),
    "frozen and held, of one weight": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8, bias=False), nn.Linear(8, 4)",
        opt="net.a.weight.requires_grad = False\n" + OPT, rule=missing_gradients.frozen,
    ),
    "frozen and held by nobody": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="net.a.requires_grad_(False)\nopt = torch.optim.SGD(net.b.parameters(), lr=0.1)",
        rule=missing_gradients.frozen, found=False,
    ),
    "frozen again in the loop": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="net.a.requires_grad_(False)\n" + OPT, rule=missing_gradients.frozen,
        after=f"for k in range(3):\n    net.a.requires_grad_(False)\n    {LOSS}.backward()\n    opt.step()",
    ),
    "frozen again in the loop, by a function": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="def freeze(part):\n    for p in part.parameters():\n        p.requires_grad = False\n"
        "freeze(net.a)\n" + OPT,
        rule=missing_gradients.frozen,
        after=f"for k in range(3):\n    if k == 1:\n        freeze(net.a)\n    {LOSS}.backward()\n    opt.step()",
    ),
    "frozen again in another loop": parts(
        "return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)",
        opt="for k in range(2):\n    net.a.requires_grad_(False)\n" + OPT, rule=missing_gradients.frozen,
    ),
    "an attribute of another name": parts(
        "return self.a(x)", opt="for p in net.parameters():\n    p.require_grad = False\n" + OPT,
        rule=missing_gradients.misspelt,
    ),
    "an attribute of a module": parts(
        "return self.a(x)", opt="net.a.requires_grad = False\n" + OPT, rule=missing_gradients.misspelt
    ),
    "an attribute of a module without a bias": parts(
        "return self.a(x)", "self.a = nn.Linear(16, 4, bias=False)", opt="net.a.requires_grad = False\n" + OPT,
        rule=missing_gradients.misspelt,
    ),
    "an attribute of a module that does not train": parts(
        "return self.a(x)", opt="net.b.requires_grad = False\n" + OPT, rule=missing_gradients.misspelt, found=False
    ),
}  # fmt: skip

OWN = (
    "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, b):\n"
    "        ctx.save_for_backward(a, b)\n        return a * b\n    @staticmethod\n    def backward(ctx, g):\n"
    "        a, b = ctx.saved_tensors\n        return {back}\nw, v = P(4), P(4)\n{opt}\n"
    "Own.apply({w}, v).sum().backward()\n{step}"
)


def own(back: str, w: str = "w", opt: str = "opt = torch.optim.SGD([w, v], lr=0.1)", found: bool = True) -> Case:
    return Case(
        missing_gradients.missing, OWN.format(back=back, w=w, opt=opt, step="opt.step()" if "opt" in opt else ""), found
    )


HALTED = {
    "a function that gives no gradient": own("None, g * a"),
    "a function that gives no gradient of what was computed": own("None, g * a", "w.tanh()"),
    "a function that gives no gradient, and no optimizer": own("None, g * a", opt="n = 1"),
    "a function that gives no gradient of what was computed, and no optimizer": own(
        "None, g * a", "w.tanh()", opt="n = 1"
    ),
    "a function that gives both": own("g * b, g * a", found=False),
}

# -- values that grow --------------------------------------------------------------------------------------------------

GROWS = (
    "w = torch.full((16, 16), {size}, requires_grad=True)\nh = {start}\nfor k in range({passes}):\n    h = {op}\n{end}"
)


def grows(passes: int, size: str = "1e6", start: str = "torch.ones(4, 16)", found: bool = True, op: str = "h @ w",
          end: str = "z = h.sum()\nz.backward()") -> Case:  # fmt: skip
    text = GROWS.format(passes=passes, size=size, start=start, op=op, end=end)
    return Case(growing_values.growing, text, found)


GROWING = {
    "values that grow in six passes": grows(6),
    "values that grow in four passes": grows(4, "1e9"),
    "values that grow in three passes": grows(3, "1e13", found=False),
    "values that grow and overflow elsewhere": grows(5, "1e6", end="z = h.exp().sum()\nz.backward()"),
    "values that grow, of one number each": grows(6, op="h * w[0] * 16"),
    "values that are large from the start": grows(4, "1.0", "torch.full((4, 16), 3e37)", found=False),
    "values that do not grow": grows(6, "0.01", found=False),
    "values that grow by no weight": grows(40, op="h * 1e3", found=False),
}

TRAINING = (
    PILED | UNSTEPPED | CLEARED | HELD | ANEW | DROPPED | NEVER | CLIPPED | MISSING | HALTED | GROWING
)  # fmt: skip
