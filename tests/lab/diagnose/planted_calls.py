"""Modules that are called the wrong way, and cells beside them; see planted.py."""

from __future__ import annotations

from .planted_more import Planted

CALLS: dict[str, Planted] = {
    "nn.MSELoss(pred, y)": Planted(
        "error",
        (7,),
        """
torch.manual_seed(0)
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for epoch in range(3):
    y_hat = model(x)
    loss = nn.MSELoss(y_hat, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "nn.ReLU(x) in forward": Planted(
        "error",
        (9,),
        """
class MLP(nn.Module):
    def __init__(self, *, in_features, hidden, out_features):
        super().__init__()
        self.lin1 = nn.Linear(in_features, hidden)
        self.lin2 = nn.Linear(hidden, out_features)

    def forward(self, x):
        x = self.lin1(x)
        x = nn.ReLU(x)
        return self.lin2(x)

torch.manual_seed(0)
mlp = MLP(in_features=5, hidden=8, out_features=2)
out = mlp(torch.randn(3, 5))
out.sum().backward()
""",
    ),
    "LSTM's tuple given to a Linear": Planted(
        "error",
        (9,),
        """
class Sentiment(nn.Module):
    def __init__(self, vocab=50, dim=8, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)
    def forward(self, tokens):
        h = self.rnn(self.embed(tokens))
        return self.out(h)

torch.manual_seed(0)
model = Sentiment()
logits = model(torch.randint(0, 50, (4, 7)))
F.binary_cross_entropy_with_logits(logits[:, -1, 0], torch.ones(4)).backward()
""",
    ),
    "misspelt forward": Planted(
        "error",
        (13,),
        """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def foward(self, x):
        return torch.tanh(self.fc(x))

torch.manual_seed(0)
enc = Encoder()
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
for x in torch.randn(4, 5, 6):
    z = enc(x)
    z.square().mean().backward()
    opt.step()
""",
    ),
    "flatten without start_dim": Planted(
        "error",
        (10,),
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(4 * 7 * 7, 10)
    def forward(self, x):
        x = self.pool(F.relu(self.conv(x)))
        x = x.flatten()
        return self.fc(x)

torch.manual_seed(0)
net = Net()
for images, labels in [(torch.rand(8, 1, 14, 14), torch.randint(0, 10, (8,))) for _ in range(2)]:
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
""",
    ),
    "GAN: D trained on fakes that are not detached": Planted(
        "error",
        (18,),
        """
class GAN:
    def __init__(self, z=4, d=2):
        self.z = z
        self.G = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, d))
        self.D = nn.Sequential(nn.Linear(d, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def train_on(self, real):
        bce, n = nn.BCEWithLogitsLoss(), len(real)
        fake = self.G(torch.randn(n, self.z))
        self.d_opt.zero_grad()
        d_loss = bce(self.D(real), torch.ones(n, 1)) + bce(self.D(fake), torch.zeros(n, 1))
        d_loss.backward()
        self.d_opt.step()
        self.g_opt.zero_grad()
        g_loss = bce(self.D(fake), torch.ones(n, 1))
        g_loss.backward()
        self.g_opt.step()

torch.manual_seed(0)
gan = GAN()
for real in torch.randn(3, 8, 2):
    gan.train_on(real)
""",
    ),
    "phase name never 'training'": Planted(
        "cut",
        (8,),
        """
def train_model(model, loaders, criterion, optimizer, num_epochs=2):
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            for inputs, labels in loaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "training"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
    return model

torch.manual_seed(0)
def make(n):
    return [(torch.randn(8, 8), torch.randint(0, 2, (8,))) for _ in range(n // 8)]
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
train_model(net, {"train": make(32), "val": make(16)}, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1))
""",
    ),
    "custom Function with one gradient too few": Planted(
        "error",
        (16,),
        """
class LeakyStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, slope):
        ctx.save_for_backward(input)
        ctx.slope = slope
        return torch.where(input > 0, input, input * slope)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        return torch.where(input > 0, grad_output, grad_output * ctx.slope)

torch.manual_seed(0)
lin = nn.Linear(4, 4)
out = LeakyStep.apply(lin(torch.randn(6, 4)), 0.1)
out.sum().backward()
""",
    ),
    "channels last images into conv": Planted(
        "error",
        (14,),
        """
class ImageSet(torch.utils.data.Dataset):
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.pixels = rng.randint(0, 256, size=(n, 16, 16, 3)).astype(np.uint8)
        self.labels = rng.randint(0, 2, size=n)
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, i):
        return torch.from_numpy(self.pixels[i]).float() / 255.0, int(self.labels[i])

torch.manual_seed(0)
cnn = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
for step, (img, lab) in enumerate(torch.utils.data.DataLoader(ImageSet(12), batch_size=4)):
    logits = cnn(img)
    F.cross_entropy(logits, lab).backward()
""",
    ),
    "argmax as input to next": Planted(
        "cut",
        (9,),
        """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 4)
        self.table = nn.Embedding(4, 8)
        self.last = nn.Linear(8, 4)
    def forward(self, v):
        t = self.first(v)
        k = t.max(dim=1)[1]
        return self.last(self.table(k))
net = Two()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), labels)
    loss.backward()
    opt.step()
""",
    ),
}
