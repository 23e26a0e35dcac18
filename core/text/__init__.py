"""Text as numbers: vocabularies, tokenizers by character, byte pairs and WordPiece, windows for language models.

``from core.text import BytePairTokenizer, TokenWindows``. Nothing is ever downloaded.
"""

from __future__ import annotations

from .bytepair import BytePairTokenizer
from .characters import CharacterTokenizer
from .vocab import Vocab, build_vocab_from_iterator, vocab
from .windows import TokenWindows
from .wordpiece import WordPieceTokenizer

__all__ = ["BytePairTokenizer", "CharacterTokenizer", "TokenWindows", "Vocab", "WordPieceTokenizer",
           "build_vocab_from_iterator", "vocab"]  # fmt: skip
