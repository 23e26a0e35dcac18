"""Texts for test_read_rules.py about figures of a model: what is told, and what comes close and is not."""

from __future__ import annotations

HELD_OUT = {
    "samples in both parts": "train = x[:80]\ntest = x[70:]",
    "samples in both parts, by numbers with names": "n, m = 80, 70\nx_train, x_test = x[:n], x[m:]",
    "a training part that lies behind": "test = x[:1030]\ntrain = x[5:]",
    "a test part within the training part": "train, valid = x[10:90], x[20:30]",
    "one sample in both parts": "train, test = x[0:80], x[79:90]",
    "rows of samples in both parts": "train, test = x[:80, 1:], x[70:, 1:]",
    "two permutations": "train = torch.randperm(n)[:k]\ntest = torch.randperm(n)[k:]",
    "two permutations, the rest first": "late = np.random.permutation(n)[k:]\nearly = np.random.permutation(n)[:k]",
    "the whole set is loaded": (
        "train_part, test_part = random_split(data, [80, 20])\nprint(len(train_part))\n"
        "loader = DataLoader(data, batch_size=8)"
    ),
    "columns chosen by all samples": (
        "best = (x * y[:, None]).mean(0).topk(3).indices\nkept = x[:, best]\na, b, c, d = train_test_split(kept, y)"
    ),
    "scaled before the split": "x = (x - x.mean(0)) / x.std(0)\ntrain, test = x[:80], x[80:]",
    "scaled before the split, by named figures": "m, s = x.mean(0), x.std(0)\nx = (x - m) / s\na, b = x[:80], x[80:]",
    "scaled by a scaler before the split": "x = scaler.fit_transform(x)\na, b, c, d = train_test_split(x, y)",
    "a scaler that is fitted before the split": (
        "scaler.fit(x)\nx = scaler.transform(x)\ntrain_set, test_set = random_split(x, [80, 20])"
    ),
    "scaled before a set is split": (
        "x = x / x.max()\ndata = TensorDataset(x, y)\ntrain_set, test_set = random_split(data, [80, 20])"
    ),
    "scaled before masks split it": "x = x - x.mean(0)\na, b = x[is_train], x[is_test]",
    "the test part by its own figures": (
        "x_train = (x_train - x_train.mean(0)) / x_train.std(0)\nx_test = (x_test - x_test.mean(0)) / x_test.std(0)"
    ),
    "the test part by a scaler of its own": ("x_train = a.fit_transform(x_train)\nx_test = a.fit_transform(x_test)"),
}
HELD_OUT_NOT = {
    "parts that meet": "train = x[:80]\ntest = x[80:]",
    "parts with a gap": "train = x[:80]\ntest = x[90:]",
    "parts of two variables": "train = x[:80]\ntest = z[70:]",
    "two views of the whole": "train = x[0:]\ntest = x[5:]",
    "every second sample": "train = x[:80:2]\ntest = x[1:80:2]",
    "parts from the end": "train = x[:-20]\ntest = x[-20:]",
    "a part that ends before it begins": "train = x[80:70]\ntest = x[60:90]",
    "bounds that nobody knows": "train = x[:n]\ntest = x[m:]",
    "bounds that are no numbers": "n, m = '8', 7.5\ntrain = x[:n]\ntest = x[m:]",
    "a part of the training part": "train = x[:80]\ntrain_test = x[70:]\nx_train_again = x[:60]",
    "one permutation": "order = torch.randperm(n)\ntrain, test = order[:k], order[k:]",
    "two permutations of other lengths": "train = torch.randperm(n)[:k]\ntest = torch.randperm(n)[m:]",
    "two permutations from their begins": "train = torch.randperm(n)[:k]\nmore = torch.randperm(n)[:k]",
    "a permutation from elsewhere": "train = torch.randperm(n)[1:k]\ntest = torch.randperm(n)[k:]",
    "the training part is loaded": (
        "train_part, test_part = random_split(data, [80, 20])\nloader = DataLoader(train_part, batch_size=8)"
    ),
    "another set is loaded": (
        "train_part, test_part = random_split(data, [80, 20])\nloader = DataLoader(others, batch_size=8)"
    ),
    "the whole set was loaded before": (
        "loader = DataLoader(data, batch_size=8)\ntrain_part, test_part = random_split(data, [80, 20])"
    ),
    "the part is used and the whole loaded": (
        "train_part, test_part = random_split(data, [80, 20])\nuse(train_part)\nloader = DataLoader(data)"
    ),
    "parts that are not called so": "a, b = random_split(data, [80, 20])\nloader = DataLoader(data)",
    "columns chosen by some samples": (
        "best = (x[:80] * y[:80, None]).mean(0).topk(3).indices\nkept = x[:, best]\n"
        "a, b, c, d = train_test_split(kept, y)"
    ),
    "columns chosen by their spread": (
        "best = x.std(0).topk(3).indices\nkept = x[:, best]\na, b, c, d = train_test_split(kept, y)"
    ),
    "rows that are chosen": (
        "best = (x * y[:, None]).mean(0).topk(3).indices\nkept = x[best, :]\na, b, c, d = train_test_split(kept, y)"
    ),
    "some columns of some rows": (
        "best = (x * y[:, None]).mean(0).topk(3).indices\nkept = x[1:, best]\na, b, c, d = train_test_split(kept, y)"
    ),
    "columns chosen of what is never split": (
        "best = (x * y[:, None]).mean(0).topk(3).indices\nkept = x[:, best]\na, b = train_test_split(y)"
    ),
    "scaled after the split": "train, test = x[:80], x[80:]\nx = (x - x.mean(0)) / x.std(0)",
    "scaled by the training part": "x = x - x_train.mean(0)\nx_train, x_test = x[:80], x[80:]",
    "scaled by a number": "x = x / 255\ntrain, test = x[:80], x[80:]",
    "multiplied by its spread": "x = x * x.std(0)\ntrain, test = x[:80], x[80:]",
    "a scaler that was fitted to others": (
        "scaler.fit(z)\nx = scaler.transform(x)\ntrain_set, test_set = random_split(x, [80, 20])"
    ),
    "a transform that nobody fitted": "x = scaler.transform(x)\ntrain_set, test_set = random_split(x, [80, 20])",
    "a scaler of something that is read": "x = scaler.fit_transform(load())\na, b = x[:80], x[80:]",
    "both parts by the training part": ("m = x_train.mean(0)\nx_train = x_train - m\nx_test = x_test - m"),
    "the test part alone": "x_test = x_test - x_test.mean(0)",
    "two test parts by their own figures": "a_test = a_test - a_test.mean(0)\nb_val = b_val - b_val.mean(0)",
    "one half of a random split": "x = x - x.mean(0)\nlengths = [8, 2]\na, b = random_split(data, x)",
}
JUDGED = {
    "the largest score": "best, _ = out.max(1)\nacc = (best == y).float().mean()",
    "the largest score, of a function": "best, where = torch.max(out, 1)\nacc = (y == best).float().mean()",
    "the largest score, by a name": "best, _ = out.max(dim=1)\nacc = (best == y).sum()",
    "the largest scores": "best, _ = out.topk(1)\nacc = (best == y).sum()",
    "the values on the line": "acc = (out.max(1).values == y).float().mean()",
    "the first of the two on the line": "acc = (y == out.max(1)[0]).float().mean()",
    "the first of core's two": "acc = (y == core.max(out, 1)[0]).float().mean()",
}
JUDGED_NOT = {
    "the place of the largest": "_, best = out.max(1)\nacc = (best == y).float().mean()",
    "the largest of all": "best, y2 = out.max()\nacc = (best == y).float().mean()",
    "the largest of two tensors": "best, rest = max(out, 1)\nacc = (best == y).float().mean()",
    "the largest by torch of all": "acc = (torch.max(out)[0] == y).float().mean()",
    "the second of the two": "acc = (out.max(1)[1] == y).float().mean()",
    "the indices": "acc = (out.max(1).indices == y).float().mean()",
    "above the largest": "best, _ = out.max(1)\nacc = (best > y).float().mean()",
    "three of a call": "best, _, z = out.max(1)\nacc = (best == y).float().mean()",
    "the least": "best, _ = out.min(1)\nacc = (best == y).float().mean()",
}
LAST_BATCH = {
    "the last batch is judged": "for xb, yb in loader:\n    pred = net(xb)\nacc = (pred == yb).float().mean()",
    "the last batch is judged in each epoch": (
        "for epoch in range(3):\n    for xb, yb in loader:\n        pred = net(xb)\n    acc = (pred == yb).sum()"
    ),
    "the last batch is judged by a method": (
        "for xb, yb in loader:\n    pred = net(xb)\nacc = (pred == yb.long()).float().mean()"
    ),
}
LAST_BATCH_NOT = {
    "judged in the loop": "for xb, yb in loader:\n    pred = net(xb)\n    acc = (pred == yb).float().mean()",
    "judged before the loop": "acc = (pred == yb).sum()\nfor xb, yb in loader:\n    pred = net(xb)",
    "the last batch of training": (
        "for xb, yb in loader:\n    pred = net(xb)\n    loss.backward()\nacc = (pred == yb).float().mean()"
    ),
    "the last batch of a step": (
        "for xb, yb in loader:\n    pred = net(xb)\n    opt.step()\nacc = (pred == yb).float().mean()"
    ),
    "bound anew after the loop": (
        "for xb, yb in loader:\n    pred = net(xb)\npred, yb = net(x), y\nacc = (pred == yb).float().mean()"
    ),
    "one of the two is older": "for xb in loader:\n    pred = net(xb)\nacc = (pred == y).float().mean()",
    "one that stands alone": "for xb, yb in loader:\n    pred = net(xb)\ndone = yb == 3",
    "compared with one of a list": "for xb, yb in loader:\n    pred = net(xb)\nacc = (pred == yb[0]).float()",
    "less than": "for xb, yb in loader:\n    pred = net(xb)\nacc = (pred < yb).float().mean()",
    "after the loop around it": (
        "for epoch in range(3):\n    for xb, yb in loader:\n        pred = net(xb)\nacc = (pred == yb).sum()"
    ),
    "no loop over batches": "for xb, yb in zip(a, b):\n    pred = net(xb)\nacc = (pred == yb).float().mean()",
}
MEANS = {
    "the mean of scores in a list": (
        "scores = []\nfor xb, yb in loader:\n    scores.append(f1_score(yb, net(xb)))\nprint(sum(scores) / len(scores))"
    ),
    "the mean of scores in a sum": (
        "total = 0\nfor xb, yb in loader:\n    total += auc(yb, net(xb)).item()\nprint(total / len(loader))"
    ),
    "the mean of scores as floats": (
        "s = []\nfor b in batches:\n    s.append(float(recall(b)))\nprint(statistics.fmean(s))"
    ),
    "the mean of scores by NumPy": "s = []\nfor b in batches:\n    s.append(recall(b).item())\nprint(np.average(s))",
}
MEANS_NOT = {
    "no mean is taken": "s = []\nfor b in loader:\n    s.append(recall(b))\nprint(max(s))",
    "the mean of others": "s = []\nfor b in loader:\n    s.append(recall(b))\nprint(np.mean(t))",
    "the mean within the loop": "s = []\nfor b in loader:\n    s.append(recall(b))\n    print(np.mean(s))",
    "while it trains": "s = []\nfor b in loader:\n    loss.backward()\n    s.append(recall(b))\nprint(np.mean(s))",
    "while it steps": "s = []\nfor b in loader:\n    opt.step()\n    s.append(recall(b))\nprint(np.mean(s))",
    "no batches": "s = []\nfor seed in seeds:\n    s.append(recall(seed))\nprint(np.mean(s))",
    "subtracted": "s = 0\nfor b in loader:\n    s -= recall(b)\nprint(s / 3)",
    "multiplied afterwards": "s = 0\nfor b in loader:\n    s += recall(b)\nprint(s * 3)",
    "two arguments": "s = []\nfor b in loader:\n    s.append(recall(b), 1)\nprint(np.mean(s))",
    "outside a loop": "s = []\ns.append(recall(b))\nprint(np.mean(s))",
}
FOLDS = {
    "one model through all folds": "net = Net()\nfor fold in folds:\n    train(net, fold)\n    print(evaluate(net))",
    "one model through all folds, by hand": (
        "net = Net()\nfor fold in range(5):\n    loss = crit(net(a), b)\n    loss.backward()\n    print(net(c))"
    ),
    "one classifier through all folds": "clf = make()\nfor a, b in kf.split(x):\n    clf_fit(clf)\n    print(acc(clf))",
    "folds told by what is left out": (
        "net = Net()\nfor k in range(5):\n    held = folds[k]\n    rest = [f for f in range(5) if f != k]\n"
        "    fit(net, rest)\n    print(score(net, held))"
    ),
    "a model that is called to judge": "net = Net()\nfor fold in folds:\n    fit(net, fold)\n    print(net(fold))",
}
FOLDS_NOT = {
    "a model for each fold": "for fold in folds:\n    net = Net()\n    fit(net, fold)\n    print(score(net))",
    "a model that comes back": (
        "net = Net()\nfor fold in folds:\n    net.load_state_dict(s)\n    fit(net, fold)\n    print(score(net))"
    ),
    "a model that is not judged": "net = Net()\nfor fold in folds:\n    fit(net, fold)\n    print(fold)",
    "a model that is not trained": "net = Net()\nfor fold in folds:\n    print(score(net))",
    "no model": "data = load()\nfor fold in folds:\n    fit(data, fold)\n    print(score(data))",
    "a model that runs once": "net = Net()\nfor fold in folds:\n    net(fold).backward()",
    "a model made later": "for fold in folds:\n    fit(net, fold)\n    print(score(net))\nnet = Net()",
}
DIVIDED = {
    "right by batches": "for a, b in loader:\n    right += (net(a) == b).sum().item()\nacc = right / len(loader)",
    "right by batches, in per cent": (
        "for a, b in test_dl:\n    hits += float((net(a) == b).sum())\nacc = 100 * hits / len(test_dl)"
    ),
    "right by batches, counted by eq": "for a, b in dl:\n    n += net(a).eq(b).sum().item()\nacc = n / len(dl)",
}
DIVIDED_NOT = {
    "right by samples": "for a, b in loader:\n    n += (net(a) == b).sum().item()\nacc = n / len(loader.dataset)",
    "a mean by batches": "for a, b in loader:\n    n += (net(a) == b).float().mean().item()\nacc = n / len(loader)",
    "a loss by batches": "for a, b in loader:\n    n += loss.sum().item()\nacc = n / len(loader)",
    "another sum by batches": "for a, b in loader:\n    n += (net(a) == b).sum().item()\nacc = m / len(loader)",
    "by the batches of others": "for a, b in loader:\n    n += (net(a) == b).sum().item()\nacc = n / len(others)",
    "subtracted in each batch": "for a, b in loader:\n    n -= (net(a) == b).sum().item()\nacc = n / len(loader)",
    "times batches": "for a, b in loader:\n    n += (net(a) == b).sum().item()\nacc = n * len(loader)",
    "a list of samples": "for a, b in samples:\n    n += (net(a) == b).sum().item()\nacc = n / len(samples)",
}
MEAN_LOSS = {
    "mean losses by samples": "for a, b in dl:\n    total += loss.item()\nprint(total / len(dl.dataset))",
    "mean losses by samples, in place": (
        "for k, (a, b) in enumerate(dl):\n    total += float(val_loss.detach().cpu())\ntotal /= len(dl.dataset)"
    ),
    "mean losses by samples, as they are": "for a in dl:\n    total += loss\nprint(total / len(dl.dataset))",
}
MEAN_LOSS_NOT = {
    "losses of samples by samples": (
        "for a, b in dl:\n    total += loss.item() * len(a)\nprint(total / len(dl.dataset))"
    ),
    "mean losses by batches": "for a, b in dl:\n    total += loss.item()\nprint(total / len(dl))",
    "mean losses of others": "for a, b in dl:\n    rest += loss.item()\nprint(total / len(dl.dataset))",
    "mean losses of another loader": "for a, b in dl:\n    total += loss.item()\nprint(total / len(vl.dataset))",
    "mean losses that are subtracted": "for a, b in dl:\n    total -= loss.item()\nprint(total / len(dl.dataset))",
    "mean losses times samples": "for a, b in dl:\n    total += loss.item()\nprint(total * len(dl.dataset))",
    "what is no loss": "for a, b in dl:\n    total += right.item()\nprint(total / len(dl.dataset))",
}
