"""Findings whose remedy is a choice that nobody but the user can make, so that they have no patch: which, and why.

The figures of remedies count them apart (`python -m tests.lab.prove.figures`).
"""

from __future__ import annotations

import re

CHOICES = {
    r"Use them in forward\(\), or take them out of the model": "whether a layer is to be used, its author knows",
    r"Keep the hidden state that the layer returns|Keep the keys and values of what came before": (
        "forward() has to take and to give what it remembers: another design of the model"
    ),
    r"Take another number for padding, or leave out by the lengths": "which number is free, only the texts tell",
    r"Number them once, by the training set or a fixed list": "which list holds, the user decides",
    r"Split first, and choose by the training part alone": "the split comes first: another order of the experiment",
    r"The traceback names the calls that led there": "the finding names a place and no remedy",
    r"sparse=True\), with SGD or SparseAdam": (
        "SparseAdam leaves the moments of rows alone that were not read: it trains otherwise than Adam"
    ),
    r"or load in other processes|in a DataLoader with num_workers": (
        "what loads is to be faster in its own way, or other processes load, which a trial does not begin"
    ),
}


def choice(remedy: str) -> str:
    """Return why a remedy is the user's choice; "" where it is none.

    >>> choice("Use them in forward(), or take them out of the model and the optimizer.")
    'whether a layer is to be used, its author knows'
    >>> choice("Clear before backward().")
    ''
    """
    return next((reason for words, reason in CHOICES.items() if re.search(words, remedy)), "")
