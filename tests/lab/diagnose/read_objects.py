"""Texts for test_read_rules.py about objects and data: what is told, and what comes close and is not."""

from __future__ import annotations

STATES = {
    "a state that is loaded": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict()\nnet.load_state_dict(best)"
    ),
    "a state that is saved": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict()\ntorch.save(best, 'a.pt')"
    ),
    "a state in a dictionary": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = {'epoch': e, 'net': net.state_dict()}\n"
        "net.load_state_dict(best['net'])"
    ),
    "a state in a shallow copy": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = dict(net.state_dict())\n"
        "net.load_state_dict(best)"
    ),
    "a state in a shallow copy by its method": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict().copy()\n"
        "net.load_state_dict(best)"
    ),
    "a state in a shallow copy by copy": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = copy.copy(net.state_dict())\n"
        "net.load_state_dict(best)"
    ),
    "a state in a list": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = [e, net.state_dict()]\n"
        "net.load_state_dict(best[1])"
    ),
    "a state of an object": (
        "class Stop:\n    def __call__(self, l):\n        if l < self.l:\n"
        "            self.best = self.net.state_dict()\n"
        "stop = Stop()\nnet.load_state_dict(stop.best)"
    ),
    "a state of an object that is saved": (
        "class Stop:\n    def see(self, l):\n        if l < self.l:\n            self.best = self.net.state_dict()\n"
        "    def done(self):\n        torch.save(self.best, 'a.pt')"
    ),
    "a second name of the best": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best_net = net\nprint(best_net(x))"
    ),
}
STATES_NOT = {
    "a state that is copied": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = copy.deepcopy(net.state_dict())\n"
        "net.load_state_dict(best)"
    ),
    "a state of each round": (
        "for e in range(9):\n    opt.step()\n    best = net.state_dict()\nnet.load_state_dict(best)"
    ),
    "a state that is not used": "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict()",
    "a state that another loads": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict()\nold.load_state_dict(best)"
    ),
    "a state that is used at once": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict()\n"
        "        torch.save(best, 'a.pt')"
    ),
    "a state of a model of each round": (
        "for e in range(9):\n    net = Net()\n    opt.step()\n    if l < b:\n        best = net.state_dict()\n"
        "net.load_state_dict(best)"
    ),
    "a state of one of many": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = nets[0].state_dict()\n"
        "nets[0].load_state_dict(best)"
    ),
    "a state where nothing trains": (
        "for e in range(9):\n    if l < b:\n        best = net.state_dict()\nnet.load_state_dict(best)"
    ),
    "a state outside a loop": "opt.step()\nif l < b:\n    best = net.state_dict()\nnet.load_state_dict(best)",
    "a state into an argument": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = net.state_dict(prefix='a')\n"
        "net.load_state_dict(best)"
    ),
    "a state of an object, always": (
        "class Stop:\n    def __call__(self, l):\n        self.best = self.net.state_dict()\n"
        "net.load_state_dict(stop.best)"
    ),
    "a state of an object from its begin": (
        "class Stop:\n    def __init__(self, net):\n        if net:\n            self.best = net.state_dict()\n"
        "net.load_state_dict(stop.best)"
    ),
    "a state of an object, used at once": (
        "class Stop:\n    def see(self, l):\n        if l < self.l:\n            self.best = self.net.state_dict()\n"
        "            torch.save(self.best, 'a.pt')"
    ),
    "a state of an object of another name": (
        "class Stop:\n    def see(self, l):\n        if l < self.l:\n            self.best = self.net.state_dict()\n"
        "net.load_state_dict(stop.last)"
    ),
    "a second name that is not the best": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        kept = net\nprint(kept(x))"
    ),
    "a second name of what is not trained": (
        "for e in range(9):\n    opt.step()\n    if l < b:\n        best = data\nprint(best)"
    ),
    "a second name that nobody reads": "for e in range(9):\n    opt.step()\n    if l < b:\n        best_net = net",
    "a second name without a condition": "for e in range(9):\n    opt.step()\n    best_net = net\nprint(best_net(x))",
}
WRITTEN = {
    "classes are renamed in place": "for i in range(9):\n    y[y == i] = table[i]",
    "classes are renamed by a second name": "z = y\nfor i in range(9):\n    z[y == i] = table[i]",
    "classes are swapped": "for i in range(9):\n    y[y == i] = 8 - i",
}
WRITTEN_NOT = {
    "classes of a copy": "z = y.clone()\nfor i in range(9):\n    z[y == i] = table[i]",
    "classes by pairs, which may lie apart": "for old, new in pairs.items():\n    y[y == old] = new",
    "classes by a constant": "for i in range(9):\n    y[y == i] = 3",
    "classes moved down by one": "for i in range(9):\n    y[y == i] = i - 1",
    "classes moved out of the way": "for i in range(9):\n    y[y == i] = -i",
    "classes moved out of the way by more": "for i in range(9):\n    y[y == i] = -i - 1",
    "classes moved behind all": "for i in range(9):\n    y[y == i] = i + 100",
    "classes behind their number": "for i in range(9):\n    y[y == i] = i * len(y)",
    "classes as they are": "for i in range(9):\n    y[y == i] = i",
    "classes below": "for i in range(9):\n    y[y < i] = table[i]",
    "classes of something else": "for i in range(9):\n    y[w == i] = table[i]",
    "classes without a loop": "y[y == i] = table[i]",
    "classes while": "while i:\n    y[y == i] = table[i]",
    "classes of no counter": "for i in range(9):\n    y[y == k] = table[i]",
    "classes by no counter": "for i in range(9):\n    y[y == i] = table[k]",
    "a second name that is bound anew": "z = y\nz = y.clone()\nfor i in range(9):\n    z[y == i] = table[i]",
    "a second name that comes later": "for i in range(9):\n    z = y\n    z[y == i] = table[i]",
}
AVERAGES = {
    "an average before the weights": (
        "class Ema:\n    def __init__(self, net):\n        self.w = net.w.clone()\n    def update(self):\n"
        "        self.w.mul_(0.9)\nema = Ema(net)\nnet.load_state_dict(saved)\nopt.step()"
    ),
}
AVERAGES_NOT = {
    "an average after the weights": AVERAGES["an average before the weights"].replace(
        "ema = Ema(net)\nnet.load_state_dict(saved)", "net.load_state_dict(saved)\nema = Ema(net)"
    ),
    "an average on the line of the weights": AVERAGES["an average before the weights"].replace(
        "ema = Ema(net)\nnet.load_state_dict(saved)", "net.load_state_dict(saved); ema = Ema(net)"
    ),
    "the average's own weights": AVERAGES["an average before the weights"].replace("saved", "ema.w"),
    "an average of another": AVERAGES["an average before the weights"].replace("Ema(net)\n", "Ema(old)\n"),
    "an average that is made again": AVERAGES["an average before the weights"] + "\nema = Ema(net)",
    "an average that keeps none": AVERAGES["an average before the weights"].replace(".clone()", ""),
    "an average of nothing": AVERAGES["an average before the weights"].replace("Ema(net)\n", "Ema()\n"),
}
NAMES = {
    "one list many times": "rows = [[]] * n\nfor k in range(n):\n    rows[k].append(k)",
    "one dictionary many times": "rows = [{}] * 9\nrows[2]['a'] = 3",
    "one set many times": "rows = [{1}] * 9\nrows[2].add(3)",
    "one row many times": "grid = [[0, 0]] * 9\ngrid[1][0] += 3",
    "a target that is the network": "target_net = net.to(device).eval()\nwith torch.no_grad():\n    q = target_net(x)",
    "two attributes of one network": (
        "class Agent:\n    def __init__(self, net):\n        self.policy = net.to(device)\n"
        "        self.target = net.to(device)"
    ),
    "a target that is the attribute": (
        "class Agent:\n    def __init__(self):\n        self.policy_net = Net()\n"
        "        self.target_net = self.policy_net"
    ),
    "a hook that finds the last": "for name, m in net:\n    m.register_forward_hook(lambda m, i, o: kept.append(name))",
}
NAMES_NOT = {
    "a list of numbers": "rows = [0] * n\nrows[3] = 1",
    "two lists many times": "rows = [[], []] * n\nrows[3].append(1)",
    "a list for each": "rows = [[] for k in range(n)]\nrows[3].append(1)",
    "one list that nobody changes": "rows = [[]] * n\nprint(rows[3])",
    "one list, others changed": "rows = [[]] * n\nothers[3].append(1)",
    "one list whose items are replaced": "rows = [[]] * n\nrows[3] = [1]",
    "one list added": "rows = [[]] + n\nrows[3].append(1)",
    "a target that is copied": "target = copy.deepcopy(net)\nuse(target)",
    "a target that is bound anew": "target = net\ntarget = Net()\nuse(target)",
    "a target that nobody uses": "target = net",
    "a target of what is not trained": "target = labels\nuse(target)",
    "the network by a plain name": "model = net\nuse(model)",
    "a target's attribute of its own": (
        "class Agent:\n    def __init__(self):\n        self.policy = Net()\n        self.target = Net()"
    ),
    "an attribute of no network": (
        "class Set:\n    def __init__(self, a):\n        self.image = a\n        self.target = a"
    ),
    "two targets of one": (
        "class Agent:\n    def __init__(self, net):\n        self.old_net = net\n        self.target = net"
    ),
    "attributes the other way round": (
        "class Agent:\n    def __init__(self, net):\n        self.target = net\n        self.policy = net"
    ),
    "a hook that binds": "for n, m in net:\n    m.register_forward_hook(lambda m, i, o, n=n: kept.append(n))",
    "a hook that reads no counter": "for n, m in net:\n    m.register_forward_hook(lambda m, i, o: kept.append(z))",
    "a hook that is removed": (
        "for n, m in net:\n    h = m.register_forward_hook(lambda m, i, o: kept.append(n))\n    h.remove()"
    ),
    "a hook that runs in the loop": (
        "for n, m in net:\n    m.register_forward_hook(lambda m, i, o: kept.append(n))\n    model(x)"
    ),
    "a hook with backward in the loop": (
        "for n, m in net:\n    m.register_hook(lambda g: kept.append(n))\n    loss.backward()"
    ),
    "a hook outside a loop": "m.register_forward_hook(lambda m, i, o: kept.append(n))",
    "a hook with a name": "for n, m in net:\n    m.register_forward_hook(keep)",
}
STORED = {
    "a stored image is changed": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        x /= 255\n        return x"
    ),
    "a stored image is changed, with NumPy": (
        "import numpy as np\nclass Set:\n    def __getitem__(self, i):\n        x = torch.from_numpy(self.images[i])\n"
        "        x[0] -= 1\n        return x"
    ),
    "a stored image is changed by a method": (
        "class Set:\n    def __getitem__(self, i):\n        x, y = self.images[i], self.labels[i]\n"
        "        x.clamp_(0, 1)\n        return x, y"
    ),
    "a stored image is changed elsewhere": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        return self.scale(x, 2)\n"
        "    def scale(self, image, by):\n        image *= by\n        return image"
    ),
    "a stored image is changed by an item": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n"
        "        x[0] = x[0] / 2\n        return x"
    ),
}
STORED_NOT = {
    "a copy is changed": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i].clone()\n"
        "        x /= 255\n        return x"
    ),
    "an index is changed": (
        "class Set:\n    def __getitem__(self, i):\n        idx = self.order[i]\n        idx += 1\n        return idx"
    ),
    "a patch is erased": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        x[0] = 0\n        return x"
    ),
    "another value from there": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        x = x / 255\n        x -= 1\n"
        "        return x"
    ),
    "something else is changed": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        z -= 1\n        return x"
    ),
    "what is not of the object": (
        "class Set:\n    def __getitem__(self, i):\n        x = images[i]\n        x -= 1\n        return x"
    ),
    "changed before it is taken": (
        "class Set:\n    def __getitem__(self, i):\n        x -= 1\n        x = self.images[i]\n        return x"
    ),
    "a method that gives another": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        return x.clamp(0, 1)"
    ),
    "a method that binds anew": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        return self.scale(x)\n"
        "    def scale(self, image):\n        image = image + 1\n        image *= 2\n        return image"
    ),
    "a method that changes another": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        return self.scale(x, z)\n"
        "    def scale(self, image, by):\n        by *= 2\n        return image"
    ),
    "a special method": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.images[i]\n        x.__enter__()\n        return x"
    ),
}
TURNED = {
    "an image turns and its mask stays": (
        "def augment(image, mask):\n    if random.random() < 0.5:\n        image = torch.flip(image, [-1])\n"
        "    return image, mask"
    ),
}
TURNED_NOT = {
    "both turn": (
        "def augment(image, mask):\n    if random.random() < 0.5:\n        image = torch.flip(image, [-1])\n"
        "        mask = torch.flip(mask, [-1])\n    return image, mask"
    ),
    "both turn at once": (
        "def augment(image, mask):\n    if random.random() < 0.5:\n"
        "        image, mask = image.flip(-1), mask.flip(-1)\n"
        "    return image, mask"
    ),
    "it always turns": "def augment(image, mask):\n    image = image.flip(-1)\n    return image, mask",
    "the mask is not given": (
        "def augment(image, mask):\n    if random.random() < 0.5:\n        image = image.flip(-1)\n    return image"
    ),
    "one of two masks turns": (
        "def augment(image, mask, depth):\n    if random.random() < 0.5:\n        image = image.flip(-1)\n"
        "        mask = mask.flip(-1)\n    return image, mask, depth"
    ),
    "no maker of samples": (
        "def shown(image, mask):\n    if random.random() < 0.5:\n        image = image.flip(-1)\n    return image, mask"
    ),
}
WINDOWS = {
    "a target in its window": "def item(i):\n    return s[i : i + w], s[i + w - 1]",
    "a target in its window, gathered": (
        "for i in range(n):\n    xs.append(s[i : i + w])\n    ys.append(s[i + w - 1])"
    ),
    "a target in its window, named": "def item(i):\n    a = s[i : i + w, 1:]\n    b = s[i + w - 1, 0]\n    return a, b",
    "a window that is one too long": ("for i in range(n):\n    xs.append(s[i : i + w + 1])\n    ys.append(s[i + w])"),
    "a window of numbers": "def item(i):\n    return s[i : i + 24], s[i + 23]",
    "a target in its window, as a pair": "pair = (torch.tensor(s[i : j]), torch.tensor(s[j - 1]))",
}
WINDOWS_NOT = {
    "a target behind its window": "def item(i):\n    return s[i : i + w], s[i + w]",
    "a target of every second": "def item(i):\n    return s[i : i + w : 2], s[i + w - 1]",
    "a window from the begin": "def item(i):\n    return s[: i + w], s[i + w - 1]",
    "a window to the end": "def item(i):\n    return s[i :], s[i + w - 1]",
    "a window of another": "def item(i):\n    return s[i : i + w], t[i + w - 1]",
    "a target behind a longer window": "def item(i):\n    return s[i : i + w + 1], s[i + w + 1]",
    "a target behind its numbers": "def item(i):\n    return s[i : i + 24], s[i + 24]",
    "a window alone": "def item(i):\n    return s[i : i + w]",
}
SEEDED = {
    "a seed in the loop": (
        "for k in range(9):\n    torch.manual_seed(0)\n    h = x + torch.randn(3)\n    h.backward()"
    ),
    "a seed in a while": "while True:\n    random.seed(1)\n    k = random.choice(a)\n    loss.backward()",
    "a seed in a function": (
        "def noise():\n    torch.manual_seed(3)\n    return torch.randn(3)\nfor k in range(9):\n    h = noise()\n"
        "    h.backward()"
    ),
    "a seed where samples are made": (
        "class Set:\n    def __getitem__(self, i):\n        np.random.seed(3)\n"
        "        return self.x[i] + np.random.rand()"
    ),
}
BY_SAMPLE = {
    "a seed by the sample": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i]\n        np.random.seed(i)\n"
        "        return x + np.random.standard_normal(3)"
    ),
    "a seed by the sample, of its own": (
        "class Set:\n    def __getitem__(self, index):\n        torch.manual_seed(self.seed + index)\n"
        "        return self.x[index] + 0.1 * torch.randn(3)"
    ),
    "a seed by the sample of a training part": (
        "class Set:\n    def __getitem__(self, i):\n        img = open(self.files[i])\n        if self.train:\n"
        "            random.seed(i)\n            img = img.rotate(random.uniform(-9, 9))\n        return img"
    ),
}
BY_SAMPLE_NOT = {
    "a seed by the sample that is made of it": (
        "class Set:\n    def __getitem__(self, i):\n        torch.manual_seed(i)\n        return torch.randn(3)"
    ),
    "a seed by the sample of a test part": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i]\n        if not self.train:\n"
        "            torch.manual_seed(i)\n        return x + torch.randn(3)"
    ),
    "a seed by the sample that is for evaluation": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i]\n        if self.split == 'valid':\n"
        "            torch.manual_seed(i)\n        return x + torch.randn(3)"
    ),
    "a seed by sample and epoch": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i]\n"
        "        torch.manual_seed(i + epoch * 1000)\n        return x + torch.randn(3)"
    ),
    "a seed by the sample after the draws": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i] + torch.randn(3)\n"
        "        torch.manual_seed(i)\n        return x"
    ),
    "a generator by the sample": (
        "class Set:\n    def __getitem__(self, i):\n        x = self.x[i]\n        g = np.random.default_rng(i)\n"
        "        return x + g.standard_normal(3)"
    ),
    "a seed by the sample of a set for tests": (
        "class NoisyTestSet:\n    def __getitem__(self, i):\n        x = self.x[i]\n        torch.manual_seed(i)\n"
        "        return x + torch.randn(3)"
    ),
    "a seed of another method": (
        "class Set:\n    def start(self, i):\n        x = self.x[i]\n        torch.manual_seed(i)\n"
        "        return x + torch.randn(3)"
    ),
    "a seed of a set without a number": (
        "class Set:\n    def __getitem__():\n        torch.manual_seed(0)\n        return self.x[0] + torch.randn(3)"
    ),
}
SEEDED_NOT = {
    "a seed of each turn": "for k in range(9):\n    torch.manual_seed(k)\n    h = torch.randn(3)\n    h.backward()",
    "a seed of its own time": "for k in range(9):\n    torch.seed()\n    h = torch.randn(3)\n    h.backward()",
    "a seed before the loop": "torch.manual_seed(0)\nfor k in range(9):\n    h = torch.randn(3)\n    h.backward()",
    "a seed after the draws": "for k in range(9):\n    h = torch.randn(3)\n    h.backward()\n    torch.manual_seed(0)",
    "a seed of each model": (
        "for k in range(9):\n    torch.manual_seed(0)\n    opt = SGD(net.parameters())\n    h = torch.randn(3)\n"
        "    h.backward()"
    ),
    "a loop that trains nothing": "for k in range(9):\n    torch.manual_seed(0)\n    h = torch.randn(3)",
    "a function that is called once": (
        "def noise():\n    torch.manual_seed(3)\n    return torch.randn(3)\nh = noise()\nfor k in range(9):\n"
        "    h.backward()"
    ),
    "a function that draws before": (
        "def noise():\n    h = torch.randn(3)\n    torch.manual_seed(3)\n    return h\nfor k in range(9):\n"
        "    h = noise()\n    h.backward()"
    ),
    "a function that trains": (
        "def once():\n    torch.manual_seed(3)\n    torch.randn(3).backward()\nfor k in range(9):\n    once()\n"
        "    h.backward()"
    ),
    "a function that makes a model": (
        "def once():\n    torch.manual_seed(3)\n    net.parameters()\n    torch.randn(3)\n"
        "for k in range(9):\n    once()\n"
        "    h.backward()"
    ),
}
DIRECTIONS = {
    "the last step of both directions": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return out[:, -1, :]"
    ),
    "the last step of both directions, time first": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.LSTM(8, 8, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return out[-1]"
    ),
}
DIRECTIONS_NOT = {
    "the last step of one direction": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=False)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return out[:, -1]"
    ),
    "the last sample of both directions": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return out[-1]"
    ),
    "the first step of both directions": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return out[:, 0]"
    ),
    "the states of both directions": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.rnn(x)\n        return h[:, -1]"
    ),
    "the last step of another layer": (
        "class Net:\n    def __init__(self):\n        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)\n"
        "    def forward(self, x):\n        out, h = self.head(x)\n        return out[:, -1]"
    ),
}
_MOVED = "\nfor x, y in loader:\n    loss = F.mse_loss(net(x), y)\n"
DRIFTS = {
    "parameters that are kept and not copied": (
        "start = list(net.parameters())" + _MOVED + "    loss = loss + sum(((a - b) ** 2).sum() for a, b in "
        "zip(net.parameters(), start))"
    ),
    "parameters that are detached and not copied": (
        "old = [p.detach() for p in net.parameters()]" + _MOVED + "    for p, q in zip(net.parameters(), old):\n"
        "        loss += (p - q).pow(2).sum()"
    ),
    "parameters that are kept by name": (
        "old = {n: p.data for n, p in net.named_parameters()}" + _MOVED + "    for n, p in net.named_parameters():\n"
        "        loss += (fisher[n] * (p - old[n]) ** 2).sum()"
    ),
    "parameters that are kept by name, in a dictionary": (
        "def penalty(self):\n    old = dict(self.net.named_parameters())\n"
        "    return sum(F.mse_loss(p, old[n]) for n, p in self.net.named_parameters())"
    ),
}
DRIFTS_NOT = {
    "parameters that are copied": (
        "start = [p.detach().clone() for p in net.parameters()]"
        + _MOVED
        + "    loss += sum((a - b).norm() for a, b in "
        "zip(net.parameters(), start))"
    ),
    "parameters of a copy": (
        "old = list(copy.deepcopy(net).parameters())" + _MOVED + "    loss += sum((a - b).norm() for a, b in "
        "zip(net.parameters(), old))"
    ),
    "parameters of another model": (
        "others = list(teacher.parameters())" + _MOVED + "    loss += sum((a - b).norm() for a, b in "
        "zip(net.parameters(), others))"
    ),
    "parameters and their gradients": (
        "params = list(net.parameters())" + _MOVED + "    for p, g in zip(params, grads):\n        p.data = p - 0.1 * g"
    ),
    "sums of parameters": (
        "sizes = [p.sum() for p in net.parameters()]" + _MOVED + "    loss += sum((a - b).sum() for a, b in "
        "zip(net.parameters(), sizes))"
    ),
    "values that are computed": (
        "halves = [p - 0.5 for p in net.parameters()]" + _MOVED + "    loss += sum((a - b).sum() for a, b in "
        "zip(net.parameters(), halves))"
    ),
    "parameters that are counted": (
        "params = list(net.parameters())" + _MOVED + "    for p, q in zip(net.parameters(), params):\n"
        "        print(p.shape, q.shape)"
    ),
}
