"""Text as numbers: vocabularies, tokenizers by character and by byte pairs, windows for language models.

``from core.text import BytePairTokenizer, TokenWindows``. Nothing is ever downloaded.
"""

from __future__ import annotations

from .bytepair import BytePairTokenizer
from .characters import CharacterTokenizer
from .vocab import Vocab, build_vocab_from_iterator, vocab
from .windows import TokenWindows

__all__ = ["BytePairTokenizer", "CharacterTokenizer", "TokenWindows", "Vocab", "build_vocab_from_iterator", "vocab"]
