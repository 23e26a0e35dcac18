"""Texts for test_read_rules.py about the samples that a model sees and is judged by: what is told, and what comes close
and is not."""

from __future__ import annotations

WEIGHTS = {
    "weights by the counts": "counts = torch.bincount(y)\nw = counts / counts.sum()\nf = nn.CrossEntropyLoss(weight=w)",
    "weights by the counts, of a list": (
        "counts = [(y == c).sum().item() for c in range(4)]\nw = torch.tensor([c / sum(counts) for c in counts])\n"
        "loss = F.cross_entropy(out, y, weight=w)"
    ),
    "a sampler by the counts": "n = torch.bincount(y).float()\nsampler = WeightedRandomSampler(n[y], len(y))",
    "weights by the counts, in a call": "f = nn.NLLLoss(np.bincount(y).astype(float))",
}
WEIGHTS_NOT = {
    "weights by the inverse": "n = torch.bincount(y).float()\nw = n.sum() / n\nf = nn.CrossEntropyLoss(weight=w)",
    "weights by the inverse, normalised": (
        "n = torch.bincount(y).float()\nw = 1 / n\nf = nn.CrossEntropyLoss(w / w.sum())"
    ),
    "weights by what is left": "n = torch.bincount(y)\nw = 1.0 - n / n.sum()\nf = nn.CrossEntropyLoss(weight=w)",
    "the inverse of a list": (
        "n = [(y == c).sum() for c in range(4)]\nw = torch.tensor([sum(n) / c for c in n])\nf = nn.CrossEntropyLoss(w)"
    ),
    "weights that are given": "f = nn.CrossEntropyLoss(weight=torch.tensor([0.1, 0.9]))",
}
STRANGERS = {
    "a state of other sequences": (
        "loader = DataLoader(data, shuffle=True)\nh = None\nfor x, y in loader:\n    if h is not None:\n"
        "        h = h.detach()\n    out, h = net(x, h)\n    loss.backward()"
    ),
    "a state of other sequences, of two parts": (
        "train_dl = DataLoader(data, batch_size=8, shuffle=True)\nhidden = net.begin()\n"
        "for k, (x, y) in enumerate(train_dl):\n"
        "    hidden = tuple(s.detach() for s in hidden)\n    pred, hidden = net(x, hidden)\n    f(pred, y).backward()"
    ),
}
STRANGERS_NOT = {
    "a state of the same sequences": (
        "loader = DataLoader(data, shuffle=False)\nh = None\nfor x, y in loader:\n    out, h = net(x, h)\n"
        "    loss.backward()"
    ),
    "a state that begins anew": (
        "loader = DataLoader(data, shuffle=True)\nfor x, y in loader:\n    h = net.begin()\n    out, h = net(x, h)\n"
        "    loss.backward()"
    ),
    "a state within a batch": (
        "loader = DataLoader(data, shuffle=True)\nfor x, y in loader:\n    h = None\n    for t in range(9):\n"
        "        out, h = net(x[t], h)\n    loss.backward()"
    ),
    "a state that is only looked at": (
        "loader = DataLoader(data, shuffle=True)\nh = None\nfor x, y in loader:\n    out, h = net(x)\n"
        "    loss.backward()"
    ),
}
_READER = (
    "class Net:\n    def __init__(self):\n        self.rnn = nn.{kind}(8, 8, batch_first=True)\n"
    "    def forward(self, x{more}):\n        {state} = self.rnn({x})\n        return self.fc({last})\n"
)


def _reader(
    kind: str = "GRU", more: str = ", lengths", state: str = "out, _", x: str = "x", last: str = "out[:, -1]"
) -> str:
    return _READER.format(kind=kind, more=more, state=state, x=x, last=last)


PADDED = {
    "the last step of padding": _reader(),
    "the final state of padding": _reader("LSTM", ", seq_lens", "_, (h, c)", last="h[-1]"),
    "the last step, filled up elsewhere": _reader(more="", last="out[:, -1, :]")
    + "def collate(rows):\n    return pad_sequence(rows, batch_first=True)",
}
PADDED_NOT = {
    "the step at its length": _reader(last="out[torch.arange(len(x)), lengths - 1]"),
    "the final state of what is packed": _reader(
        "LSTM", state="_, (h, c)", x="pack_padded_sequence(x, lengths)", last="h[-1]"
    ),
    "sequences of one length": _reader(more=""),
    "sequences filled up on the left": _reader(more="")
    + "def collate(rows):\n    return pad_sequence(rows, batch_first=True, padding_side='left')",
    "the mean of what a mask keeps": _reader(more=", lengths, mask", last="(out * mask).sum(1)"),
}
ALONG = {
    "a batch in the place of time": _reader("LSTM", "", x="x.permute(1, 0, 2)", last="out[-1]"),
    "a batch in the place of time, before": (
        "class Net:\n    def __init__(self):\n        layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)\n"
        "        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2)\n"
        "    def forward(self, x):\n        x = x.transpose(0, 1)\n        y = self.enc(x)\n"
        "        return self.fc(y.mean(dim=0))"
    ),
}
ALONG_NOT = {
    "time first without batch_first": _reader("GRU", "", x="x.permute(1, 0, 2)", last="out[-1]").replace(
        ", batch_first=True", ""
    ),
    "the batch brought to the front": _reader("GRU", "", x="x.permute(1, 0, 2)", last="out[:, -1]"),
    "channels and time change places": _reader("GRU", "", x="x.permute(0, 2, 1)", last="out[-1]"),
    "one sequence": _reader("GRU", "", last="out[-1]"),
}
_TABLE = (
    "class Pos:\n    def __init__(self):\n        self.layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)\n"
    "        self.pe = table.unsqueeze(0).transpose(0, 1)\n    def forward(self, x):\n"
    "        return self.layer(x + {pe})"
)
POSITIONS = {
    "one position for all": "class Pos:\n    def forward(self, x):\n        return x + self.pe[:, x.size(1)]",
    "one position for all, in place": (
        "class Pos:\n    def forward(self, x):\n        x += self.pos_emb[x.shape[1]]\n        return x"
    ),
    "samples numbered": _TABLE.format(pe="self.pe[:x.size(0)]"),
    "samples numbered, with features": _TABLE.format(pe="self.pe[: x.size(0), :]"),
}
POSITIONS_NOT = {
    "so many positions": "class Pos:\n    def forward(self, x):\n        return x + self.pe[:, : x.size(1)]",
    "time first": _TABLE.format(pe="self.pe[:x.size(0)]").replace(", batch_first=True", ""),
    "turned before": _TABLE.format(pe="self.pe[:x.size(0)]").replace("return", "x = x.transpose(0, 1)\n        return"),
    "a table by the batch": _TABLE.format(pe="self.pe[:x.size(1)].squeeze(1)"),
    "a position of one token": "class Pos:\n    def forward(self, x, t):\n        return x + self.pe[:, t]",
}
AUGMENTED = {
    "random transforms before a split": (
        "tf = Compose([RandomCrop(32), ToTensor()])\ndata = CIFAR10('.', transform=tf)\n"
        "train_set, val_set = random_split(data, [8, 2])"
    ),
    "an augmented set before a split": "data = Digits(x, y, augment=True)\ntrain, valid = random_split(data, [8, 2])",
    "a set that augments itself": (
        "class Set(Dataset):\n    def __getitem__(self, i):\n        x = self.x[i]\n        if random.random() < 0.5:\n"
        "            x = x.flip(-1)\n        return x\ndata = Set(x)\ntrain, val = random_split(data, [8, 2])"
    ),
    "the training's transforms for tests": (
        "train_tf = Compose([RandomHorizontalFlip(), ToTensor()])\n"
        "test_set = CIFAR10('.', train=False, transform=train_tf)"
    ),
}
AUGMENTED_NOT = {
    "plain transforms before a split": (
        "data = CIFAR10('.', transform=Compose([ToTensor()]))\ntrain_set, val_set = random_split(data, [8, 2])"
    ),
    "a set without augmentation": "data = Digits(x, y, augment=False)\ntrain, valid = random_split(data, [8, 2])",
    "a part with a set of its own": (
        "data = Digits(x, augment=True)\ntrain_set, val_set = random_split(data, [8, 2])\nval_set.dataset = Digits(x)"
    ),
    "two sets": (
        "a, b = Digits(x, augment=True), Digits(x)\ntrain_set = Subset(a, order[:80])\nval_set = Subset(b, order[80:])"
    ),
    "a set that knows its part": (
        "class Set(Dataset):\n    def __getitem__(self, i):\n        x = self.x[i]\n"
        "        if self.train and random.random() < 0.5:\n"
        "            x = x.flip(-1)\n        return x\ndata = Set(x)\ntrain, val = random_split(data, [8, 2])"
    ),
}
_LOOPS = "for x, y in train_loader:\n    loss.backward()\n    opt.step()\n"
OTHER_LOOPS = {
    "a validation over the training part": _LOOPS
    + "for x, y in train_loader:\n    val_loss += f(x, y)\nprint(val_loader)",
    "a test over the training part": (
        _LOOPS
        + "def test(net, test_loader):\n    for k, (x, y) in enumerate(train_loader):\n        test_correct += f(x, y)"
    ),
    "steps on the test part": "show(train_loader)\nfor x, y in test_loader:\n    loss.backward()\n    opt.step()",
}
OTHER_LOOPS_NOT = {
    "a validation over its part": _LOOPS + "for x, y in val_loader:\n    val_loss += f(x, y)",
    "a figure of the training part": _LOOPS + "for x, y in train_loader:\n    train_acc += f(x, y)\nprint(val_loader)",
    "no validation part": _LOOPS + "for x, y in train_loader:\n    val_loss += f(x, y)",
    "adapted at test time": "adapt(train_loader)\nfor x, y in test_loader:\n    loss.backward()\n    opt.step()",
}
OTHER_LENGTHS = {
    "the length of the other loader": "for x in val_loader:\n    val_loss += f(x)\nprint(val_loss / len(train_loader))",
    "the length of the other set": ("for x in test_dl:\n    right += f(x)\nacc = 100 * right / len(train_dl.dataset)"),
}
OTHER_LENGTHS_NOT = {
    "its own length": "for x in val_loader:\n    val_loss += f(x)\nprint(val_loss / len(val_loader))",
    "a sum over both": (
        "for x in val_loader:\n    loss += f(x)\nfor x in train_loader:\n    loss += f(x)\n"
        "print(loss / len(train_loader))"
    ),
    "a share of lengths": "for x in val_loader:\n    n += 1\nshare = len(val_loader) / len(train_loader)",
}
_CHOICE = (
    "for epoch in range(9):\n    train_loss = fit(net)\n    {figure} = judge(net)\n    if {test}:\n"
    "        {best} = {chosen}\n"
    "        state = copy.deepcopy(net.state_dict())"
)


def _choice(figure: str, chosen: str, best: str = "best", sign: str = ">") -> str:
    return _CHOICE.format(figure=figure, chosen=chosen, best=best, test=f"{chosen} {sign} {best}")


CHOSEN = {
    "chosen on the test samples": _choice("test_acc", "test_acc"),
    "chosen on the test samples, by a loss": _choice("test_loss", "test_loss", "best_loss", "<"),
    "chosen on the training samples": _choice("val_loss", "train_loss", "best_loss", "<"),
}
CHOSEN_NOT = {
    "chosen on validation samples": _choice("val_acc", "val_acc"),
    "chosen on the training samples alone": _choice("entropy", "train_loss", "best_loss", "<"),
    "a figure that is only noted": "for e in range(9):\n    if test_acc > best:\n        best = test_acc",
    "one choice": "if test_acc > best:\n    torch.save(net.state_dict(), 'a.pt')",
}
_BEST = (
    "best_{name} = {begin}\nfor e in range(9):\n    val_{name} = judge(net)\n    if val_{name} {sign} best_{name}:\n"
    "{renew}        torch.save(net.state_dict(), 'best.pt')\n"
)


def _best(name: str = "loss", begin: str = "float('inf')", sign: str = "<", renew: bool = True) -> str:
    renewed = f"        best_{name} = val_{name}\n" if renew else ""
    return _BEST.format(name=name, begin=begin, sign=sign, renew=renewed)


_STOPS = "    else:\n        wait += 1\n        if wait > 3:\n            break\n"
KEPT = {
    "the worst loss is kept": _best(begin="0", sign=">"),
    "the worst accuracy is kept": _best("acc", "1.0", "<"),
    "a loss below zero": _best(begin="0.0"),
    "an accuracy above infinity": _best("acc", "float('inf')", ">"),
    "a best that stays": _best(renew=False),
    "a patience that runs out": _best() + _STOPS,
}
KEPT_NOT = {
    "the best loss": _best(),
    "the best accuracy": _best("acc", "0", ">"),
    "the best of what nobody knows": _best("figure", "0", ">"),
    "a log-likelihood": _best("loglik", "float('-inf')", ">"),
    "a patience": _best() + "        wait = 0\n" + _STOPS,
    "a best that a function renews": _best(renew=False).replace(
        "torch.save", "best_loss = keep(val_loss)\n        torch.save"
    ),
}
_TOTAL = (
    "{before}for epoch in range(3):\n{within}    for x, y in loader:\n        total += loss.item()\n"
    "    print(total / len(loader))"
)
GOES_ON = {
    "a sum over all epochs": _TOTAL.format(before="total = 0.0\n", within=""),
    "a sum over all epochs, counted": (
        "run_loss = 0\nfor e in range(9):\n    for k, (x, y) in enumerate(train_loader):\n        run_loss += f(x, y)\n"
        "    history.append(run_loss / len(train_loader))"
    ),
}
GOES_ON_NOT = {
    "a sum over each epoch": _TOTAL.format(before="", within="    total = 0.0\n"),
    "a sum that begins twice": _TOTAL.format(before="total = 0.0\n", within="    total = 0.0\n"),
    "a mean in the end": (
        "total = 0.0\nfor e in es:\n    for x in loader:\n        total += loss.item()\nprint(total / len(loader))"
    ),
    "batches that are counted": (
        "n = 0\nfor e in range(3):\n    for x in loader:\n        n += 1\n    print(n / len(loader))"
    ),
}
TWICE = {
    "scaled in the set and the model": (
        "class Set:\n    def __getitem__(self, i):\n        return self.x[i] / 255\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        return self.f(x / 255.0)"
    ),
    "scaled by a transform and in the loop": (
        "tf = Compose([ToTensor()])\nfor x, y in loader:\n    x = x.to(dev).div(255)\n    loss = f(net(x), y)\n"
        "    loss.backward()"
    ),
    "scaled at first and in place": (
        "images = images.float() / 255\nfor x, y in loader:\n    x /= 255\n    f(net(x), y).backward()"
    ),
}
TWICE_NOT = {
    "scaled once": "x = x.float() / 255\nfor a, b in loader:\n    f(net(a), b).backward()",
    "scaled in the model": "class Net(nn.Module):\n    def forward(self, x):\n        return self.f(x / 255.0)",
    "scaled if it was not": (
        "x = x / 255\nclass Net(nn.Module):\n    def forward(self, x):\n        if x.dtype == torch.uint8:\n"
        "            x = x / 255\n        return x"
    ),
    "shown by its values": "x = x / 255\nfor a, b in loader:\n    print(a.max() * 255)\n    loss.backward()",
}
_CUT = "xs = torch.stack([s[i : i + L] for i in range(len(s) - L)])\n"
DEALT = {
    "windows dealt out": _CUT + "data = TensorDataset(xs, s[L:])\ntrain_set, test_set = random_split(data, [8, 2])",
    "windows dealt out by an order": (
        _CUT + "order = torch.randperm(len(xs))\ntr, te = order[:80], order[80:]\nx_train, x_test = xs[tr], xs[te]"
    ),
    "windows of a function dealt out": (
        "def cut(s, n):\n    out = []\n    for i in range(len(s) - n):\n        out.append(s[i : i + n])\n"
        "    return np.array(out)\nx = cut(s, 9)\na_train, a_val = train_test_split(x)"
    ),
    "windows of a set dealt out": (
        "class Windows(Dataset):\n    def __getitem__(self, i):\n        return self.s[i : i + self.n], self.s[i]\n"
        "data = Windows(s)\ntrain, val = random_split(data, [8, 2])"
    ),
}
DEALT_NOT = {
    "windows cut by time": _CUT + "x_train, x_test = xs[:80], xs[80:]",
    "windows kept in order": _CUT + "x_train, x_test = train_test_split(xs, shuffle=False)",
    "windows side by side": (
        "xs = torch.stack([s[i : i + L] for i in range(0, len(s), L)])\ntrain, test = random_split(xs, [8, 2])"
    ),
    "samples dealt out": "train, test = random_split(TensorDataset(x, y), [8, 2])",
    "the training windows shuffled": _CUT + "order = torch.randperm(len(xs))\nx_train = xs[order]",
}
_STEP = "\nfor x, y in loader:\n    loss = F.mse_loss(net(x), y)\n    loss.backward()\n    opt.step()"
IGNORED = {
    "a setting for nobody": "weight_decay = 1e-4\nopt = Adam(net.parameters(), lr=0.1)" + _STEP,
    "a rate for nobody": "LR = 3e-4\nopt = Adam(net.parameters())" + _STEP,
    "an end of exploring for nobody": "eps, eps_decay = 1.0, 0.99\nepsilon_min = 0.05" + _STEP,
    "steps that nobody counts": "accum_steps = 2 * 4" + _STEP,
    "an argument for nobody": (
        "def train(net, loader, lr=0.1, clip=1.0):\n    opt = Adam(net.parameters(), lr=lr)\n"
        "    for x, y in loader:\n        F.mse_loss(net(x), y).backward()\n        opt.step()\n"
        "train(net, loader, clip=2.0)"
    ),
}
IGNORED_NOT = {
    "a setting": "weight_decay = 1e-4\nopt = Adam(net.parameters(), weight_decay=weight_decay)" + _STEP,
    "a setting by its name": "momentum = 0.9\nopt = make(vars['momentum'])" + _STEP,
    "settings taken together": "warmup = 10\nmake(**locals())" + _STEP,
    "another number": "seed = 3\nn_classes = 4" + _STEP,
    "what is computed": "lr = base.lr" + _STEP,
    "an argument of what does not train": "def test(net, lr=0.1):\n    return net(x)" + _STEP,
    "an argument": (
        "def train(net, loader, clip=1.0):\n    for x, y in loader:\n        F.mse_loss(net(x), y).backward()\n"
        "        clip_grad_norm_(net.parameters(), clip)\n        opt.step()"
    ),
}
_BACKWARDS = "R = 0.0\nfor r in reversed(rewards):\n    R = r + gamma * R\n    returns.insert(0, R)"
_PLAYS = "for t in range(9):\n    rewards.append(r)\n    dones.append(done)\n"
ENDS_LEFT = {
    "ends that are kept and not read": f"rewards, dones = [], []\n{_PLAYS}{_BACKWARDS}",
    "an end out of the memory": "s, a, r, s2, done = sample()\ntarget = r + gamma * q(s2).max(1)[0]",
}
ENDS_LEFT_NOT = {
    "ends that are read": (
        f"rewards, dones = [], []\n{_PLAYS}R = 0.0\nfor r, d in zip(rewards[::-1], dones[::-1]):\n"
        "    R = r + gamma * R * (1 - d)"
    ),
    "returns without ends": f"rewards = []\nfor t in range(9):\n    rewards.append(r)\n{_BACKWARDS}",
    "ends and no discount": "rewards, dones = [], []\n" + _PLAYS + "total = sum(rewards)",
}
_BOTH_PARTS = "train_set, val_set = random_split(full, [8, 2])\n"
FOR_BOTH = {
    "transforms taken from both parts": _BOTH_PARTS + "val_set.dataset.transform = None",
    "transforms given to both parts": (
        "train = Subset(data, a)\nval = Subset(data, b)\nval.dataset.transforms = plain"
    ),
}
FOR_BOTH_NOT = {
    "a part with its own set first": (
        _BOTH_PARTS + "val_set.dataset = copy.copy(full)\nval_set.dataset.transform = None"
    ),
    "the other part with a set of its own": (
        _BOTH_PARTS + "train_set.dataset = copy.copy(full)\nval_set.dataset.transform = None"
    ),
    "parts of two sets": "train = Subset(one, a)\nval = Subset(two, b)\nval.dataset.transform = None",
    "one part": "val = Subset(data, b)\nval.dataset.transform = None",
    "a set itself": _BOTH_PARTS + "full.transform = None",
    "something else of a part": _BOTH_PARTS + "val_set.indices.kind = None",
}
_HIDE = "\nlabels = ids.clone()\nlabels[labels == {pad}] = -100"
HIDDEN_ENDS = {
    "an end that is padding": "EOS = 1\nPAD = EOS" + _HIDE.format(pad="PAD"),
    "an end that is padding, of a tokenizer": ("tok.pad_token = tok.eos_token" + _HIDE.format(pad="tok.pad_token_id")),
    "an end that is padding, filled": ("pad_id = eos_id\nlabels = ids.masked_fill(ids == pad_id, -100)"),
    "an end that is padding, ignored": "PAD = EOS\nloss = nn.CrossEntropyLoss(ignore_index=PAD)",
    "an end that is padding, where": "pad_idx = end_idx\nlabels = torch.where(ids == pad_idx, -100, ids)",
}
HIDDEN_ENDS_NOT = {
    "padding of its own": "EOS, PAD = 1, 0" + _HIDE.format(pad="PAD"),
    "an end that is padding, by lengths": "PAD = EOS\nlabels = ids.clone()\nlabels[mask == 0] = -100",
    "another token that is left out": "PAD = EOS\nlabels = ids.clone()\nlabels[labels == BOS] = -100",
    "padding that is filled with something": "PAD = EOS\nids = ids.masked_fill(ids == PAD, 7)",
    "padding that is no end": "PAD = UNK\nloss = nn.CrossEntropyLoss(ignore_index=PAD)",
}
_CODES = "def codes(rows):\n    return {made}\na = codes(train)\nb = codes({other})"
ANEW = {
    "categories numbered for each table": _CODES.format(
        made="np.unique([r[0] for r in rows], return_inverse=True)[1]", other="test"
    ),
    "categories numbered for each table, by hand": _CODES.format(
        made="{v: i for i, v in enumerate(sorted(set(rows)))}", other="x_val"
    ),
    "categories numbered for each table, by an encoder": _CODES.format(
        made="LabelEncoder().fit_transform(rows)", other="valid"
    ),
    "categories numbered for each table, by codes": _CODES.format(made="rows.cat.codes", other="test"),
    "categories numbered for each table, by factors": _CODES.format(made="pd.factorize(rows)[0]", other="df_test"),
}
ANEW_NOT = {
    "categories numbered once": _CODES.format(made="np.unique(rows, return_inverse=True)[1]", other="train"),
    "parts of the training": _CODES.format(made="np.unique(rows, return_inverse=True)[1]", other="more"),
    "categories of a list": _CODES.format(made="[known.index(r) for r in rows]", other="test"),
    "categories found and not numbered": _CODES.format(made="np.unique(rows)", other="test"),
    "numbers of another's": (
        "def codes(rows, known):\n    return np.unique(rows, return_inverse=True)[1]\n"
        "a = codes(train, k)\nb = codes(test, k)"
    ),
    "an encoder that is kept": _CODES.format(made="enc.transform(rows)", other="test"),
}
_POOL = "pool = X[~seen]\nscore = net(pool).softmax(1).amax(1)\n"
WHOLE = {
    "positions in the pool, of the mask": _POOL + "best = score.topk(9).indices\nseen[best] = True",
    "positions in the pool, of the samples": _POOL + "_, best = torch.topk(-score, 9)\nnext_batch = X[best]",
    "positions in a part, sorted": (
        "top = losses[losses > 1]\nhard = top.argsort(descending=True)[:5]\nprint(losses[hard])"
    ),
    "the best of those that are kept": (
        "kept = scores[(scores > 0.1) & valid]\nbest = kept.argmax().item()\nbox = scores[best]"
    ),
    "positions in a part, of its neighbour": (
        "s = scores[scores > 0.1]\nb = boxes[scores > 0.1]\ni = torch.argmax(s)\nprint(boxes[i])"
    ),
}
WHOLE_NOT = {
    "positions in the pool, translated": (
        _POOL + "best = score.topk(9).indices\nseen[(~seen).nonzero().squeeze(1)[best]] = True"
    ),
    "positions in the pool, of the pool": _POOL + "best = score.topk(9).indices\nasked = pool[best]",
    "a part that takes the name of the whole": (
        "boxes = boxes[scores > 0.1]\ni = torch.argmax(area(boxes))\nprint(boxes[i])"
    ),
    "positions in the whole": "best = net(X).amax(1).topk(9).indices\npool = X[~seen]\nseen[best] = True",
    "positions in another table": _POOL + "best = score.topk(9).indices\nprint(names[best])",
    "the first ones of all": "s = scores[:100]\ni = s.argmax()\nprint(scores[i])",
}
