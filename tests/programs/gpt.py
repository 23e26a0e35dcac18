"""A GPT that writes the Python reference character by character: pre-norm blocks, causal attention, tied weights."""

import math
from dataclasses import dataclass
from pydoc_data.topics import topics

import core as torch
import core.nn.functional as F
from core import nn

text = "\n".join(topics[name] for name in sorted(topics))
characters = sorted(set(text))
number = {c: i for i, c in enumerate(characters)}
data = torch.tensor([number[c] for c in text], dtype=torch.long)


@dataclass
class Config:
    vocabulary: int = len(characters)
    context: int = 64
    layers: int = 2
    heads: int = 4
    width: int = 64
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.heads = config.heads
        mask = torch.tril(torch.ones(config.context, config.context))
        self.register_buffer("mask", mask.view(1, 1, config.context, config.context))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.h = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.wte.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        position = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(position)
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, idx, new, temperature=0.8, top_k=20):
        self.eval()
        for _ in range(new):
            logits, _ = self(idx[:, -self.config.context :])
            logits = logits[:, -1, :] / temperature
            threshold = torch.topk(logits, top_k).values[:, [-1]]
            logits[logits < threshold] = -float("inf")
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return idx


def train(model, steps, batch_size=16):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 10) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / 500)))
    )
    context = model.config.context
    model.train()
    for _ in range(steps):
        start = torch.randint(len(data) - context - 1, (batch_size,))
        x = torch.stack([data[i : i + context] for i in start])
        y = torch.stack([data[i + 1 : i + 1 + context] for i in start])
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(GPT(Config()), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = GPT(Config())
    loss = math.nan
    for step, loss in enumerate(train(model, 500)):
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    start = torch.tensor([[number[c] for c in "The "]])
    print("".join(characters[i] for i in model.generate(start, 300)[0].tolist()))
    print(f"A uniform guess would lose {math.log(len(characters)):.2f} a character; the last batch lost {loss:.2f}.")
