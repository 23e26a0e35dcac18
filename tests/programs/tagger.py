"""A bidirectional GRU tags each character of Python source, in packed sequences: code, comment or text."""

import inspect
import io
import statistics
import tokenize

import core as torch
import core.nn as nn
from core.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from core.utils.data import DataLoader, Dataset

TAGS = ["code", "comment", "text"]
IGNORED = -100


def tagged_lines(module):
    """Each line with a tag a character, as Python's tokenizer sees it."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    tags = [[0] * len(line) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        tag = {tokenize.COMMENT: 1, tokenize.STRING: 2}.get(token.type)
        if tag is None:
            continue
        (row, start), (last, end) = token.start, token.end
        while row <= last:
            stop = end if row == last else len(lines[row - 1])
            tags[row - 1][start:stop] = [tag] * (stop - start)
            row, start = row + 1, 0
    return [(line, tag) for line, tag in zip(lines, tags) if line.strip()]


lines = tagged_lines(statistics)
characters = sorted({c for line, _ in lines for c in line})


class Lines(Dataset):
    def __init__(self, lines):
        self.lines = lines
        self.number = {c: i + 1 for i, c in enumerate(characters)}

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        line, tags = self.lines[i]
        return torch.tensor([self.number[c] for c in line]), torch.tensor(tags)


def collate_fn(batch):
    inputs, tags = zip(*batch)
    lengths = torch.tensor([len(x) for x in inputs])
    return (
        pad_sequence(inputs, batch_first=True),
        pad_sequence(tags, batch_first=True, padding_value=IGNORED),
        lengths,
    )


class Tagger(nn.Module):
    def __init__(self, embedding=24, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(len(characters) + 1, embedding, padding_idx=0)
        self.gru = nn.GRU(embedding, hidden, num_layers=1, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=x.size(1))
        return self.out(self.dropout(output))


split = len(lines) * 4 // 5
training, test = Lines(lines[:split]), Lines(lines[split:])


def train(model, steps, batch_size=32):
    loader = DataLoader(training, batch_size=batch_size, shuffle=True, collate_fn=collate_fn)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, momentum=0.5)
    weight = torch.tensor([1.0, 2.0, 1.0])
    criterion = nn.CrossEntropyLoss(weight=weight, ignore_index=IGNORED)
    model.train()
    done = 0
    while True:
        for x, tags, lengths in loader:
            if done == steps:
                return
            scores = model(x, lengths)
            loss = criterion(scores.permute(0, 2, 1), tags)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.1)
            optimizer.step()
            done += 1
            yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(Tagger(), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Tagger()
    for step, loss in enumerate(train(model, 150)):
        if step % 15 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, tags, lengths in DataLoader(test, batch_size=64, collate_fn=collate_fn):
            seen = tags != IGNORED
            right += (model(x, lengths).argmax(-1) == tags)[seen].sum().item()
            total += seen.sum().item()
    print(f"Of {total:,} characters of unseen lines {right / total:.1%} are tagged as Python's tokenizer does.")
