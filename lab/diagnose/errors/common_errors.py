"""Errors that people meet often, in plain words: a phrase of the message, what it means and what to do.

PyTorch's phrases, which the errors of this package keep; where one of ours says itself what came and what was needed,
that is shown instead.
"""

from __future__ import annotations

import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Trace
from ..finding import Found, capital, code_of
from . import torch_errors

# groups of the phrase stand in the sentence and in the remedy by number
TABLE: list[tuple[str, str, str]] = [
    (
        r"cannot assign \w+ before Module\.__init__",
        "the class's __init__ assigns before it has called super().__init__()",
        "Begin __init__ with super().__init__().",
    ),
    (
        r"'(?:float|int)' object has no attribute '(backward|item|mean|detach)'",
        "it calls .{0}() on a Python number: .item(), float() or NumPy has taken it off the graph before",
        "Keep the tensor for backward(), and take .item() of it only to print it.",
    ),
    (
        r"'numpy\.\w+' object has no attribute 'backward'|'ndarray' object has no attribute 'backward'",
        "it calls .backward() on an array of NumPy's, which has no graph",
        "Compute the loss with tensors.",
    ),
    (
        r"'(\w+)' object has no attribute '(\w+)'",
        "{0} has no {1}: nothing has set it, or it is spelled otherwise there",
        "Compare the name with what __init__ sets.",
    ),
    (
        r"returned an incorrect number of gradients \(expected (\d+), got (\d+)\)",
        "its backward() returns {1} gradients and forward() has {0} arguments",
        "Return one for each argument of forward(), None for those without.",
    ),
    (
        r"Boolean value of Tensor with more than one value",
        "`if`, `while`, `and` and `or` take one truth value and got a tensor of several",
        "Say which is meant: .any(), .all(), or a single element; where() chooses element by element.",
    ),
    (
        r"view size is not compatible",
        "the elements do not lie in memory in the order that view() needs",
        "Use reshape(), or contiguous() before view().",
    ),
    (
        r"shape '\[(.+?)\]' is invalid for input of size (\d+)",
        "{1} elements cannot be arranged as ({0})",
        "Check the sizes, and leave one of them open: view(len(x), -1).",
    ),
    (
        r"Target size \(torch\.Size\(\[(.*?)\]\)\) must be the same as input size \(torch\.Size\(\[(.*?)\]\)\)",
        "the predictions are ({1}) and the targets ({0})",
        "Give both one shape: prediction.squeeze(-1), or target.unsqueeze(-1).",
    ),
    (
        r"0D or 1D target tensor expected|multi-target not supported",
        "it wants one class number for each sample, shape (N,), and got more dimensions",
        "Give it target.squeeze(1), or of one-hot rows target.argmax(1).",
    ),
    (
        r"Expected floating point type for target with class probabilities",
        "a target of the predictions' shape is taken for probabilities, and these are integers",
        "Give it class numbers of shape (N,), or the one-hot rows as .float().",
    ),
    (
        r"Expected more than 1 value per channel",
        "batch norm in training mode cannot normalise a single value for each channel",
        "Call model.eval() for single samples; in training give it more than one (drop_last=True in the loader).",
    ),
    (
        r"input\.size\(-1\) must be equal to input_size\. Expected (\d+), got (\d+)",
        "the recurrent layer takes {0} features and got {1}",
        "Make the layer for {1} features; the last dimension of its input are the features.",
    ),
    (
        r"Only Tensors of floating point and complex dtype can require gradients",
        "integers have no gradient",
        "Make it a tensor of floats: torch.tensor([1.0, 2.0], requires_grad=True).",
    ),
    (
        r"a Tensor with (\d+) elements cannot be converted to Scalar|only one element tensors can be converted",
        "a number was asked of a tensor of several elements",
        "Reduce it first: .mean().item(), or take all: .tolist().",
    ),
    (
        r"expected input\[(.*?)\] to have (\d+) channels, but got (\d+) channels",
        "the convolution takes {1} channels in dimension 1 and the input ({0}) has {2} there",
        "Bring it to (N, C, H, W), of channels-last images permute(0, 3, 1, 2), or make the layer for {2} channels.",
    ),
    (
        r"(?:Expected|expected) \d[Dd].*?(?:\d[Dd])?.*?but got (?:a )?(?:input of size: )?(.+?)(?: input)?$",
        "the number of dimensions is not what it takes: it got {0}",
        "Add a batch or a channel dimension with unsqueeze(), or take one away with squeeze().",
    ),
    (
        r"Sizes of tensors must match except in dimension (\d+)\. Expected size (\d+) but got size (\d+)",
        "tensors can be joined along dimension {0} only if they agree in all others: {1} and {2}",
        "Join along the dimension that differs, or bring the others to one size.",
    ),
    (
        r"stack expects each tensor to be equal size, but got \[(.*?)\].* and \[(.*?)\]",
        "stack() wants tensors of one shape and got ({0}) and ({1})",
        "Bring them to one size (pad_sequence for sequences), or join them with cat().",
    ),
    (
        r"""not implemented for '(\w+)'""",
        "it takes floating-point values and got {0}",
        "Give it .float(); of a loss, check that the prediction comes first and the target second.",
    ),
    (
        r"(?:Found dtype Long but expected Float|result type Float can't be cast to the desired output type Long)",
        "the targets are whole numbers, and this loss takes them as floating-point values",
        "Convert the target: target.float().",
    ),
    (
        r"Found dtype (\w+) but expected (\w+)",
        "it takes {1} values and one of those that it is given is {0}",
        "Convert that one, mostly the target: target.float().",
    ),
    (
        r"Function (\w+) returned an invalid gradient at index (\d+) - got (\[.*?\]) but expected shape compatible "
        r"with (\[.*?\])",
        "{0} gives a gradient of shape {2} for input {1}, whose shape is {3}",
        "Let the class's backward() return a gradient of the shape of each input.",
    ),
    (
        r"all elements of (?:input|target) should be between 0 and 1",
        "binary_cross_entropy takes probabilities and got values outside 0 to 1",
        "Use binary_cross_entropy_with_logits, or a sigmoid before it; and look at the targets.",
    ),
    (
        r"scalar types: Long, Int; but got (?:torch\.)?(?:\w+\.)?(\w+)Tensor",
        "indices are integers and these are {0}",
        "Give it .long().",
    ),
    (
        r"result type (\w+) can't be cast to the desired output type (\w+)",
        "an in-place op cannot put {0} values into a tensor of {1}",
        "Convert first: x = x.float(), or write it out of place.",
    ),
    (
        r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)",
        "index {0} is asked of a dimension of size {2}",
        "Indices go from 0 to size - 1.",
    ),
    (
        r"Error\(s\) in loading state_dict for (\w+):\s*(.+)",
        "the saved weights do not fit {0}: {1}",
        "Build the model as it was when it was saved; strict=False leaves out names that do not match.",
    ),
    (
        r"too many indices for tensor of dimension (\d+)",
        "it is indexed in more dimensions than the {0} that it has",
        "Look at its shape before this line.",
    ),
    (
        r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
        "dimension {2} is asked of a tensor whose dimensions go from {0} to {1}",
        "Look at its shape before this line.",
    ),
]
OF_DTYPES = re.compile(r"type|not implemented for")
ERRORS = [(re.compile(phrase), why, remedy) for phrase, why, remedy in TABLE]


def said(trace: Trace, error: ErrorRow) -> list[Found]:
    """A finding for an error whose phrase is in the table."""
    text = " ".join(error.detail.split())
    row = next((r for r in reversed(trace.rows) if r.error and error.message and error.message in r.error), None)
    for pattern, why, remedy in ERRORS:
        match = pattern.search(text)
        if match is None:
            continue
        names = torch_errors.NAMES if OF_DTYPES.search(match[0]) else {}  # a class may be called Double too
        words = [names.get(g or "", g or "") for g in match.groups()]
        words = [w if len(w) <= 160 else w[:159] + "…" for w in words]
        at = f" in `{code_of(trace, row)}`" if row is not None else ""
        given = torch_errors.given(row)
        named = [names[g] for g in match.groups() if g in names]
        if any(kind not in given for kind in named) or ".backward(" in at:
            given = ""  # what was recorded is not what the error speaks of
        line = capital(torch_errors.failed_at(trace, error, row))
        message = f"{line} fails{at}: {why.format(*words).rstrip('.')}{given}."
        rows = [row] if row is not None else []
        return [Found("error", "error", error.line, None, message, remedy.format(*words), rows)]
    return []
