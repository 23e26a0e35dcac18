"""Vocabularies, tokenizers and windows: lossless, equal to the plain algorithm, clear about broken files."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.text import BytePairTokenizer, CharacterTokenizer, TokenWindows, Vocab, build_vocab_from_iterator, merging
from core.text.pieces import pieces, shown, unshown
from core.utils.data import DataLoader

PROSE = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair.\n\n  We'll say: 1,775 naïve café ☃ 中 words!\n"
)


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.train(PROSE * 3, 320, specials=["<|endoftext|>", "<|pad|>"])


# -- byte pairs --------------------------------------------------------------------------------------------------------


@pytest.mark.by_turns
@settings(max_examples=150, deadline=None)
@given(st.text())
def test_any_text_comes_back(text):
    tokenizer = BytePairTokenizer.train(PROSE, 300)
    assert "".join(p.decode("utf-8", "surrogatepass") for p in pieces(text)) == text
    assert tokenizer.decode_bytes(tokenizer.encode(text)) == text.encode("utf-8", "surrogatepass")


@settings(max_examples=150, deadline=None)
@given(st.binary())
def test_any_bytes_come_back(data):
    tokenizer = BytePairTokenizer.train(PROSE, 300, specials=["<s>"])
    assert tokenizer.decode_bytes(tokenizer.encode(data)) == data
    assert tokenizer.decode_bytes(tokenizer.encode(data, specials=True)) == data
    assert unshown(shown(data)) == data


def plain_learn(words, size):
    """The algorithm in its plainest form: count all pairs anew for every merge."""
    names = [bytes([b]) for b in range(256)]
    parts = {w: list(w) for w in words}
    merges = []
    while len(names) < size:
        counts = Counter()
        for w, n in words.items():
            for pair in pairwise(parts[w]):
                counts[pair] += n
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda p: (-counts[p], p))
        name = names[best[0]] + names[best[1]]
        if name not in names:
            names.append(name)
        merges.append(best)
        parts = {w: merging.join(p, best, names.index(name)) for w, p in parts.items()}
    return names, merges


@pytest.mark.parametrize("seed", range(20))
def test_learning_is_the_plain_algorithm(seed):
    draw = random.Random(seed)
    alphabet = b"ab" if seed % 2 else b"abcde"
    words = {bytes(draw.choices(alphabet, k=draw.randint(1, 12))): draw.randint(1, 9) for _ in range(40)}
    assert merging.learn(words, 256 + 30) == plain_learn(words, 256 + 30)
    tokens, merges = merging.learn(words, 256 + 30)
    tokenizer = BytePairTokenizer(tokens, merges)
    for word in words:
        parts = list(word)
        for pair in merges:  # applying one merge after the other
            parts = merging.join(parts, pair, tokens.index(tokens[pair[0]] + tokens[pair[1]]))
        assert merging.apply(list(word), tokenizer._ranks) == parts


def test_pieces_are_gpt2s():
    """What GPT-2's own expression gives for these, checked by hand against its text."""
    text = "Hello there's  two   spaces\n\nx²=٤½ a_b don't\tstop! "
    want = ["Hello", " there", "'s", " ", " two", "  ", " spaces", "\n", "\n", "x", "²", "=", "٤½", " a", "_", "b",
            " don", "'t", "\t", "stop", "!", " "]  # fmt: skip
    assert [p.decode() for p in pieces(text)] == want
    assert b"".join(pieces(text)) == text.encode()


def test_special_tokens(tokenizer):
    text = "it was<|endoftext|>the best<|pad|>"
    plain, special = tokenizer.encode(text), tokenizer.encode(text, specials=True)
    assert special[-1] == len(tokenizer) - 1 == tokenizer.specials["<|pad|>"]
    assert tokenizer.specials["<|endoftext|>"] in special
    assert len(plain) > len(special)
    assert max(plain) < len(tokenizer) - 2
    assert tokenizer.decode(plain) == tokenizer.decode(special) == text


def test_it_compresses_and_takes_tensors(tokenizer):
    ids = tokenizer.encode(PROSE)
    assert len(ids) < 0.6 * len(PROSE.encode())
    assert tokenizer.decode(core.tensor(ids)) == tokenizer.decode(np.array(ids)) == PROSE
    assert tokenizer.decode(ids[:1] + [0xE2]).endswith("�")
    with pytest.raises(IndexError, match=r"token 9999 does not exist[\s\S]*at place 1"):
        tokenizer.decode([0, 9999])


def test_a_long_piece_is_no_quadratic_matter(tokenizer):
    long = "the" * 60_000  # one word of 180,000 letters
    assert tokenizer.decode(tokenizer.encode(long)) == long


def test_saved_and_loaded(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = BytePairTokenizer.load(path)
    assert again.encode(PROSE) == tokenizer.encode(PROSE)
    assert again.specials == tokenizer.specials
    assert again.merges == tokenizer.merges
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


def test_broken_files_say_so(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    whole = json.loads(path.read_text())

    def fails(content, phrase):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(ValueError, match=phrase) as error:
            BytePairTokenizer.load(path)
        assert "tokenizer.json" in str(error.value)

    fails("{", "is no tokenizer")
    fails([], "holds no byte-pair tokenizer")
    fails({"kind": "character tokenizer"}, "holds no byte-pair tokenizer")
    fails({**whole, "merges": None}, "its 'merges' is no list")
    fails({**whole, "tokens": whole["tokens"][5:]}, "some single bytes are no tokens")
    fails({**whole, "merges": ["zz qq"]}, "merge 0, 'zz qq', is no pair of tokens")
    fails({**whole, "tokens": [*whole["tokens"], "a"]}, "stands twice")


def test_gpt2_files(tokenizer, tmp_path):
    merges, vocab = tmp_path / "merges.txt", tmp_path / "vocab.json"
    lines = [f"{shown(tokenizer._tokens[a])} {shown(tokenizer._tokens[b])}" for a, b in tokenizer.merges]
    merges.write_text("\n".join(["#version: 0.2", *lines, ""]), "utf-8")
    read = BytePairTokenizer.from_gpt2(merges)
    assert read.encode("!")[0] == 0  # GPT-2's first token
    assert read.encode("\x00") == [188]
    assert [read.token(k) for k in read.encode(PROSE)] == [tokenizer.token(k) for k in tokenizer.encode(PROSE)]
    assert read.specials == {"<|endoftext|>": len(read) - 1}
    table = {shown(t): k for k, t in enumerate(tokenizer._tokens)}
    vocab.write_text(json.dumps(table), "utf-8")
    assert BytePairTokenizer.from_gpt2(merges, vocab).encode(PROSE) == tokenizer.encode(PROSE)
    table["a"] = 5000
    vocab.write_text(json.dumps(table), "utf-8")
    with pytest.raises(ValueError, match="does not number its tokens"):
        BytePairTokenizer.from_gpt2(merges, vocab)


def test_vocabulary_sizes():
    assert len(BytePairTokenizer.train("ab", 1000)) == 256  # no pair comes twice
    with pytest.raises(ValueError, match="every byte is a token"):
        BytePairTokenizer.train("ab", 200)
    many = BytePairTokenizer.train((line for line in PROSE.splitlines()), 280)
    assert len(many) == 280


# -- characters, vocabularies, windows ---------------------------------------------------------------------------------


def test_characters(tmp_path):
    tokenizer = CharacterTokenizer(PROSE)
    assert tokenizer.decode(tokenizer.encode(PROSE)) == PROSE
    assert tokenizer.decode(core.tensor(tokenizer.encode("wise"))) == "wise"
    with pytest.raises(ValueError, match=r"'€' is not in the vocabulary[\s\S]*character 3"):
        tokenizer.encode("abc€")
    with pytest.raises(IndexError, match="token -1 does not exist"):
        tokenizer.decode([0, -1])
    lenient = CharacterTokenizer(PROSE, unknown="?")
    assert lenient.decode(lenient.encode("abc€")) == "abc?"
    lenient.save(tmp_path / "c.json")
    again = CharacterTokenizer.load(tmp_path / "c.json")
    assert again.characters == lenient.characters
    assert again.encode("€") == lenient.encode("?")


def test_vocab():
    v = build_vocab_from_iterator((line.split() for line in ("a b c", "a b", "a d")), specials=["<unk>", "<pad>"])
    assert v.get_itos() == ["<unk>", "<pad>", "a", "b", "c", "d"]
    assert v.lookup_indices(["d", "a"]) == v(["d", "a"]) == v.forward(["d", "a"]) == [5, 2]
    assert build_vocab_from_iterator([["a", "b", "a"]], max_tokens=1).get_itos() == ["a"]
    assert build_vocab_from_iterator([["a", "b", "a"]], min_freq=2, specials=["s"], special_first=False).get_itos() == [
        "a",
        "s",
    ]
    with pytest.raises(RuntimeError, match=r"Token q not found and default index is not set[\s\S]*set_default_index"):
        v["q"]
    v.insert_token("q", 2)
    assert v.get_stoi()["a"] == 3
    assert v["q"] == 2
    with pytest.raises(RuntimeError, match="already exists"):
        v.append_token("a")
    with pytest.raises(RuntimeError, match="out of bounds"):
        v.lookup_token(7)
    assert "Vocab(7 tokens)" in repr(v)
    assert Vocab(["x"], default_index=0)["y"] == 0


def test_windows(tmp_path):
    data = TokenWindows(core.arange(23), 5)
    assert len(data) == 4
    x, y = data[-1]
    assert x.tolist() == [15, 16, 17, 18, 19]
    assert y.tolist() == [16, 17, 18, 19, 20]
    assert x.dtype is y.dtype is core.int64
    dense = TokenWindows(range(23), 5, stride=1)
    assert len(dense) == 18
    assert dense[17][1].tolist() == [18, 19, 20, 21, 22]
    with pytest.raises(IndexError, match="window 18 of 18"):
        dense[18]
    x, y = next(iter(DataLoader(dense, batch_size=4)))
    assert (x[:, 1:] == y[:, :-1]).all()
    np.arange(500, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    assert TokenWindows.from_file(tmp_path / "tokens.bin", 9)[54][1].tolist() == list(range(487, 496))
    with pytest.raises(ValueError, match=r"do not fill one window[\s\S]*needed: 6"):
        TokenWindows([1, 2, 3, 4, 5], 5)
    with pytest.raises(ValueError, match="one row of integers"):
        TokenWindows([0.5, 1.0], 1)
