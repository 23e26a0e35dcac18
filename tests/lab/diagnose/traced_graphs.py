"""Programs for test_traced_rules.py that keep graphs, leave parameters out, or run in the wrong mode."""

from __future__ import annotations

from lab.diagnose.graph import kept_histories, unheld_parameters
from lab.diagnose.training import module_modes
from lab.recorder.cell_trace import Kept, Trace

from .traced_case import Case

# -- graphs that are kept ----------------------------------------------------------------------------------------------

EVERY = (
    "net = nn.Linear(16, 4)\n{before}\nfor k in range(4):\n    loss = F.cross_entropy(net(x), labels)\n"
    "    {keep}\n{after}"
)


def kept(keep: str, before: str, after: str = "done = 1", found: bool = True) -> Case:
    return Case(kept_histories.held, EVERY.format(keep=keep, before=before, after=after), found)


def small(trace: Trace) -> None:
    """As if what is kept was small, and a model in evaluation mode gave it, of numbers of two dimensions."""
    for one in trace.kept:
        one.size, one.judged = 1023, True


def large(trace: Trace) -> None:
    for one in trace.kept:
        one.size = 1024


def nobody(trace: Trace) -> None:
    """As if another file kept it, under a path that no statement of the cell names."""
    trace.kept = [Kept(("store", ".all", "'loss'", ""), 4, 4096, 12, one.rows, True, False) for one in trace.kept]


LOG = "log.append(loss)"
KEPT = {
    "a list of losses": kept(LOG, "log = []"),
    "a list of losses that are trained": kept("loss.backward(retain_graph=True); " + LOG, "log = []"),
    "a list of numbers": kept("log.append(loss.item())", "log = []", found=False),
    "a list of losses that train": kept(LOG, "log = []", "torch.stack(log).sum().backward()", False),
    "a deque of losses": kept("log.appendleft(loss)", "import collections\nlog = collections.deque()"),
    "a list that is extended": kept("log.extend([loss, loss * 2.0])", "log = []"),
    "a list that is inserted into": kept("log.insert(0, loss)", "log = []"),
    "a list that is added to": kept("log += [loss]", "log = []"),
    "a dictionary by numbers": kept("log[k] = loss", "log = {}"),
    "a dictionary of lists": kept("log['loss'].append(loss)", "log = {'loss': [], 'rest': []}"),
    "a dictionary that makes its lists": kept("log.setdefault('loss', []).append(loss)", "log = {}"),
    "a dictionary that is brought up to date": kept("log.update({k: loss})", "log = {}"),
    "a list of an object": kept(
        "box.log.append(loss)", "class Box:\n    def __init__(self):\n        self.log = []\nbox = Box()"
    ),
    "a list of an object, by its method": kept(
        "box.add(loss)",
        "class Box:\n    def __init__(self):\n        self.log = []\n    def add(self, value):\n"
        "        self.log.append(value)\nbox = Box()",
    ),
    "a list in a function": kept(
        "note(loss, log)", "log = []\ndef note(value, into):\n    into.append(value)"
    ),
    "a list of pairs": kept("log.append((k, loss))", "log = []"),
    "a list of dictionaries": kept("log.append({'loss': loss})", "log = []"),
    "a list of outputs": kept("log.append(net(x))", "log = []", found=False),
    "a list that is made at once": Case(
        kept_histories.held, "net = nn.Linear(16, 4)\nlog = [F.cross_entropy(net(x + k), labels) for k in range(4)]"
    ),
    "a dictionary that is made at once": Case(
        kept_histories.held, "net = nn.Linear(16, 4)\n"
        "log = {k: F.cross_entropy(net(x + k), labels) for k in range(4)}"
    ),
    "a list of small losses": kept(LOG, "log = []")._replace(facts=small),
    "a list of large losses": kept(LOG, "log = []")._replace(facts=large),
    "a list that another file keeps": kept(LOG, "log = []")._replace(facts=nobody),
    "a sum of losses": kept("total = total + loss", "total = 0.0"),
    "a sum of losses in place": kept("total += loss", "total = torch.zeros(())"),
    "a sum of losses that train": kept("loss.backward(); total = total + loss", "total = 0.0"),
    "a sum of losses by parts": kept("total = total + 0.5 * loss", "total = 0.0"),
    "a mean of losses that runs": kept("total = 0.9 * total + 0.1 * loss", "total = 0.0"),
    "a sum of numbers": kept("total += loss.item()", "total = 0.0", found=False),
    "a sum that trains": kept("total = total + loss", "total = 0.0", "total.backward()", False),
    "a sum of two losses": Case(
        kept_histories.held,
        "net = nn.Linear(16, 4)\ntotal = 0.0\nfor k in range(2):\n"
        "    total = total + F.cross_entropy(net(x), labels)",
        False,
    ),
    "a graph that is kept": kept("loss.backward(retain_graph=True)", "n = 0"),
    "a graph that is kept for more": kept("loss.backward(create_graph=True, retain_graph=True)", "n = 0", found=False),
    "a state that is carried on": Case(
        kept_histories.held,
        "w, h = P(16, 16), torch.zeros(64, 16)\nfor k in range(4):\n    h = torch.tanh(x @ w + h)\n"
        "    h.sum().backward(retain_graph=True)",
    ),
    "a state that is cut": Case(
        kept_histories.held,
        "w, h = P(16, 16), torch.zeros(64, 16)\nfor k in range(4):\n    h = torch.tanh(x @ w + h.detach())\n"
        "    h.sum().backward()", False,
    ),
    "a list in a function that is left": Case(
        kept_histories.held,
        f"net = nn.Linear(16, 4)\ndef judge():\n    seen = []\n    for k in range({16}):\n"
        "        seen.append(net(x))\n"
        "    return len(seen)\njudge()",
    ),
    "a short list in a function that is left": Case(
        kept_histories.held,
        f"net = nn.Linear(16, 4)\ndef judge():\n    seen = []\n    for k in range({15}):\n"
        "        seen.append(net(x))\n"
        "    return len(seen)\njudge()", False,
    ),
    "a list in a function, judged": Case(
        kept_histories.held,
        "net = nn.Linear(16, 4)\nnet.eval()\ndef judge():\n    seen = []\n    for k in range(3):\n"
        "        out = net(x)\n"
        "        seen.append(out)\n    return len(seen)\njudge()",
    ),
    "a list in a function, trained": Case(
        kept_histories.held,
        "net = nn.Linear(16, 4)\ndef train():\n    seen = []\n    for k in range(3):\n"
        "        loss = F.cross_entropy(net(x), labels)\n        loss.backward()\n        seen.append(loss)\n"
        "    return len(seen)\ntrain()",
    ),
}  # fmt: skip

# -- parameters that nobody steps --------------------------------------------------------------------------------------

STEP = (
    "\nfor k in range(3):\n    loss = F.cross_entropy({out}, labels)\n    opt.zero_grad()\n"
    "    loss.backward()\n    opt.step()"
)


def held(before: str, out: str, found: bool = True) -> Case:
    return Case(unheld_parameters.not_held, before + STEP.format(out=out), found)


SGD = "\nopt = torch.optim.SGD({of}, lr=0.1)"
NET = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {made}\n" \
      "    def forward(self, x):\n        return {out}\nnet = Net()" + SGD.format(of="net.parameters()")  # fmt: skip
TWO = "a, b = nn.Linear(16, 8), nn.Linear(8, 4)"
UNHELD = {
    "a part of a model": held("net = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))" + SGD.format(
        of="net[1].parameters()"), "net(x)"),
    "a single bias": held("net = nn.Linear(16, 4)" + SGD.format(of="[net.weight]"), "net(x)"),
    "a part before": held(TWO + SGD.format(of="b.parameters()"), "b(a(x))"),
    "a part behind": held(TWO + SGD.format(of="a.parameters()"), "b(a(x))"),
    "a part beside": held(
        "a, b = nn.Linear(16, 4), nn.Linear(16, 4)" + SGD.format(of="a.parameters()"), "a(x) + b(x)"
    ),
    "a part that sleeps": held(TWO + "\na.eval()" + SGD.format(of="b.parameters()"), "b(a(x))"),
    "a part of a model that sleeps": held(
        "net = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))\nnet[0].eval()" + SGD.format(of="net[1].parameters()"),
        "net(x)",
    ),
    "a part behind that sleeps": held(TWO + "\nb.eval()" + SGD.format(of="a.parameters()"), "b(a(x))"),
    "a part of another function": held(
        TWO + "\ndef run(t):\n    return b(a(t))" + SGD.format(of="b.parameters()"), "run(x)"
    ),
    "a part that was made elsewhere": held(
        "body = nn.Linear(16, 8) if True else None\nparts = [body, nn.Linear(8, 4)]" + SGD.format(
            of="parts[1].parameters()"), "parts[1](parts[0](x))",
    ),
    "a single weight that sleeps": held(
        "a, b = nn.Linear(16, 8, bias=False), nn.Linear(8, 4)\na.eval()" + SGD.format(of="b.parameters()"), "b(a(x))"
    ),
    "a plain list of layers": held(
        NET.format(made="self.parts = [nn.Linear(16, 8), nn.Linear(8, 4)]; self.own = nn.Linear(4, 4)",
                   out="self.own(self.parts[1](self.parts[0](x)))"), "net(x)"),
    "a plain dictionary of layers": held(
        NET.format(made="self.parts = {'a': nn.Linear(16, 4)}; self.own = nn.Linear(4, 4)",
                   out="self.own(self.parts['a'](x))"), "net(x)"),
    "a plain list of parameters": held(
        NET.format(made="self.w = [nn.Parameter(torch.randn(16, 4))]; self.own = nn.Linear(4, 4)",
                   out="self.own(x @ self.w[0])"), "net(x)"),
    "two plain lists": held(
        NET.format(made="self.a, self.b = [nn.Linear(16, 8)], [nn.Linear(8, 4)]; self.own = nn.Linear(4, 4)",
                   out="self.own(self.b[0](self.a[0](x)))"), "net(x)"),
    "a plain tensor": held(
        NET.format(made="self.w = torch.ones(16, 4, requires_grad=True); self.own = nn.Linear(4, 4)",
                   out="self.own(x @ self.w)"), "net(x)"),
    "two plain tensors": held(
        NET.format(made="self.w = torch.ones(16, 4, requires_grad=True); self.v = torch.ones(4, requires_grad=True); "
                   "self.own = nn.Linear(4, 4)", out="self.own(x @ self.w + self.v)"), "net(x)"),
    "a layer that comes later": held(
        NET.format(made="self.a = nn.Linear(16, 8)", out="self.b(self.a(x))") + "\nnet.b = nn.Linear(8, 4)", "net(x)"
    ),
    "a layer that replaces another": held(
        "net = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))" + SGD.format(of="net.parameters()")
        + "\nnet[1] = nn.Linear(8, 4)", "net(x)",
    ),
    "all is held": held(TWO + SGD.format(of="[*a.parameters(), *b.parameters()]"), "b(a(x))", False),
    "a part that is frozen": held(
        TWO + "\na.requires_grad_(False)" + SGD.format(of="b.parameters()"), "b(a(x))", False
    ),
    "an input whose gradient is looked at": held(
        "net = nn.Linear(16, 4)\nt = x.clone().requires_grad_()" + SGD.format(of="net.parameters()"), "net(t)", False
    ),
}  # fmt: skip

MODES = {
    "judged in training mode": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n    best = net(x).argmax(1)",
    ),
    "a figure in training mode": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n"
        "    off = F.cross_entropy(net(x), labels).item()",
    ),
    "a figure of features alone": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n    z = net(x)\n"
        "    off = (z - z.mean()).mean().item()",
        False,
    ),
    "a power of features alone": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n"
        "    off = (2.0 ** net(x)).mean().item()", False,
    ),
    "dropped in every mode": Case(
        module_modes.wrong_mode,
        "a = nn.Linear(16, 4)\nF.cross_entropy(F.dropout(a(x), 0.5), labels).backward()\nwith torch.no_grad():\n"
        "    best = F.dropout(a(x), 0.5).argmax(1)",
    ),
    "dropped on purpose": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n"
        "    many = torch.stack([net(x) for k in range(4)])\n"
        "    wide, best = many.std(0), many.mean(0).argmax(1)", False,
    ),
    "judged in evaluation mode": Case(
        module_modes.wrong_mode,
        "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
        "F.cross_entropy(net(x), labels).backward()\nnet.eval()\nwith torch.no_grad():\n"
        "    best = net(x).argmax(1)", False,
    ),
}  # fmt: skip

GRAPHS = KEPT | UNHELD | MODES
