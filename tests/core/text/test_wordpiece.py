"""WordPiece: the longest pieces from the left, words as BERT cuts them, a vocabulary of all characters."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.text import WordPieceTokenizer
from core.text.words import words

PROSE = (
    "It was the best of times, it was the worst of times; it was the age of wisdom, it was the age of foolishness. "
    "Embeddings of embedded beds, unaffable and unbelievable: the naïve café! 中文 3 + 4 = 7"
)
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "em", "##bed", "##ding", "##s",
          "cafe", "中", "!", ",", "'", "s", "naive", "$", "3", "^", "un##able", "resume"]  # fmt: skip


@pytest.fixture(scope="module")
def learnt() -> WordPieceTokenizer:
    return WordPieceTokenizer.train([PROSE] * 3, 140)


# what the package `tokenizers` 0.23 gives with this vocabulary (BertNormalizer, BertPreTokenizer, WordPiece)
@pytest.mark.parametrize(
    ("string", "tokens", "decoded"),
    [
        ("[CLS] The unaffable Embeddings![SEP]", "[CLS] the un ##aff ##able em ##bed ##ding ##s ! [SEP]",
         "[CLS] the unaffable embeddings ! [SEP]"),
        ("CAFÉ中s's \tnaïve\u200b\xa0résumé$3^\x00", "cafe 中 s ' s naive resume $ 3 ^",
         "cafe 中 s ' s naive resume $ 3 ^"),
        ("embedx thes \u2014 中中", "[UNK] the ##s [UNK] 中 中", "[UNK] thes [UNK] 中 中"),
        ("##s", "[UNK] [UNK] s", "[UNK] [UNK] s"),
        ("s" * 101, "[UNK]", "[UNK]"),
    ],
)  # fmt: skip
def test_tokens_are_berts(string, tokens, decoded):
    tokenizer = WordPieceTokenizer(PIECES)
    assert tokenizer.tokenize(string, specials=True) == tokens.split()
    assert tokenizer.decode(tokenizer.encode(string, specials=True)) == decoded


def test_special_tokens_are_text_unless_asked_for():
    tokenizer = WordPieceTokenizer([*PIECES, "[", "]", "sep"])
    assert tokenizer.tokenize("the[SEP]") == ["the", "[", "sep", "]"]
    ids = tokenizer.encode("[CLS]the[SEP]", specials=True)
    assert ids == [tokenizer.specials["[CLS]"], PIECES.index("the"), tokenizer.specials["[SEP]"]]
    assert tokenizer.decode(core.tensor(ids), specials=False) == "the"


@pytest.mark.parametrize("seed", range(10))
def test_pieces_are_the_longest_from_the_left(seed):
    draw = random.Random(seed)
    some = lambda: "".join(draw.choices("abc", k=draw.randint(1, 4)))
    pieces = sorted({draw.choice(("", "##")) + some() for _ in range(25)})
    tokenizer = WordPieceTokenizer(["[UNK]", *pieces], ["[UNK]"], longest=12)

    def plain(word: str) -> list[str]:
        out: list[str] = []
        rest = word
        while rest:
            mark = "##" if out else ""
            fits = [p for p in pieces if p.startswith("##") == bool(out) and rest.startswith(p.removeprefix(mark))]
            if not fits or len(word) > 12:
                return ["[UNK]"]
            out.append(max(fits, key=len))
            rest = rest.removeprefix(out[-1].removeprefix(mark))
        return out

    for _ in range(200):
        word = "".join(draw.choices("abc", k=draw.randint(1, 14)))
        assert tokenizer.tokenize(word) == plain(word)


@pytest.mark.by_turns
@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=sorted(set(PROSE))))
def test_what_is_made_of_known_characters_comes_back(string):
    for lowercase in (True, False):
        tokenizer = WordPieceTokenizer.train(PROSE, 140, lowercase=lowercase)
        found = words(string, lowercase)
        ids = tokenizer.encode(string)
        assert tokenizer.specials["[UNK]"] not in ids
        assert tokenizer.decode(ids) == " ".join(found)
        assert tokenizer.encode(tokenizer.decode(ids)) == ids


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_words_of_any_text(string):
    found = words(string, lowercase=False)
    assert all(word and not any(c.isspace() for c in word) for word in found)
    kept = "".join(c for c in string if not c.isspace() and c != "\ufffd"
                   and unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs"))  # fmt: skip
    assert "".join(found) == kept
    small = words(string)
    assert small == words(" ".join(small)) or not string.isascii()  # some letters change twice


def test_learning_joins_the_commonest_neighbours(learnt):
    tokens = [learnt.token(k) for k in range(len(learnt))]
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"it", "was", "the"} <= set(tokens)
    assert any(t.startswith("##") and len(t) > 3 for t in tokens)
    assert len(learnt) <= 140
    assert len(WordPieceTokenizer.train("ab ab cd", 50, min_frequency=3)) == 13
    assert learnt.tokenize("\u2603 the") == ["[UNK]", "the"]
    with pytest.raises(ValueError, match="the vocabulary is too small"):
        WordPieceTokenizer.train(PROSE, 20)


def test_files_give_the_same_tokens(learnt, tmp_path):
    learnt.save(tmp_path / "t.json")
    learnt.to_bert(tmp_path / "vocab.txt")
    for other in (WordPieceTokenizer.load(tmp_path / "t.json"), WordPieceTokenizer.from_bert(tmp_path / "vocab.txt")):
        assert other.encode(PROSE) == learnt.encode(PROSE)
        assert other.specials == learnt.specials
        assert repr(other) == f"WordPieceTokenizer({len(learnt)} tokens)"


def test_berts_vocabulary_is_read_line_by_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\n[unused0]\r\n[UNK]\r\n\u2028\r\nCafé\r\n##s".encode())
    tokenizer = WordPieceTokenizer.from_bert(path, lowercase=False)
    assert tokenizer.encode("Cafés cafe") == [4, 5, 2]
    assert tokenizer.specials == {"[PAD]": 0, "[UNK]": 2}
    path.write_text("[UNK]\na\na\n")
    with pytest.raises(ValueError, match=r"vocab.txt is broken\n.*'a' twice"):
        WordPieceTokenizer.from_bert(path)
    path.write_text("a\n")
    with pytest.raises(ValueError, match=r"vocab.txt is broken\n.*no '\[UNK\]'"):
        WordPieceTokenizer.from_bert(path)


def test_what_is_not_there():
    tokenizer = WordPieceTokenizer(PIECES)
    with pytest.raises(IndexError, match="token 99 does not exist"):
        tokenizer.decode([1, 99])
    with pytest.raises(ValueError, match="came: no '<unk>'"):
        WordPieceTokenizer(PIECES, unknown="<unk>")
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([7, 12]) == "##affs"  # a piece at the beginning keeps its mark
