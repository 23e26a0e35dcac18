"""Errors that people meet often in plain words, by their texts alone."""

from __future__ import annotations

import pytest

from lab.diagnose.errors.common_errors import ERRORS, said
from lab.recorder.cell_trace import Row
from widgets.record import ErrorRow

from .test_torch_errors import a_row, failed

TEXTS = {
    "cannot assign module before Module.__init__() call": (
        "the class's __init__ assigns before it has called super().__init__().",
        "Begin __init__ with super().__init__().",
    ),
    "'float' object has no attribute 'backward'": (
        "it calls .backward() on a Python number: .item(), float() or NumPy has taken it off the graph before.",
        "Keep the tensor for backward(), and take .item() of it only to print it.",
    ),
    "'numpy.float32' object has no attribute 'backward'": (
        "it calls .backward() on an array of NumPy's, which has no graph.",
        "Compute the loss with tensors.",
    ),
    "'Net' object has no attribute 'fc3'": (
        "Net has no fc3: nothing has set it, or it is spelled otherwise there.",
        "Compare the name with what __init__ sets.",
    ),
    "function Mine returned an incorrect number of gradients (expected 2, got 1)": (
        "its backward() returns 1 gradients and forward() has 2 arguments.",
        "Return one for each argument of forward(), None for those without.",
    ),
    "Boolean value of Tensor with more than one value is ambiguous": (
        "`if`, `while`, `and` and `or` take one truth value and got a tensor of several.",
        "Say which is meant: .any(), .all(), or a single element; where() chooses element by element.",
    ),
    "view size is not compatible with input tensor's size and stride": (
        "the elements do not lie in memory in the order that view() needs.",
        "Use reshape(), or contiguous() before view().",
    ),
    "shape '[3, 5]' is invalid for input of size 16": (
        "16 elements cannot be arranged as (3, 5).",
        "Check the sizes, and leave one of them open: view(len(x), -1).",
    ),
    "Target size (torch.Size([8])) must be the same as input size (torch.Size([8, 1]))": (
        "the predictions are (8, 1) and the targets (8).",
        "Give both one shape: prediction.squeeze(-1), or target.unsqueeze(-1).",
    ),
    "0D or 1D target tensor expected, multi-target not supported": (
        "it wants one class number for each sample, shape (N,), and got more dimensions.",
        "Give it target.squeeze(1), or of one-hot rows target.argmax(1).",
    ),
    "Expected floating point type for target with class probabilities, got Long": (
        "a target of the predictions' shape is taken for probabilities, and these are integers.",
        "Give it class numbers of shape (N,), or the one-hot rows as .float().",
    ),
    "Expected more than 1 value per channel when training, got input size [1, 8]": (
        "batch norm in training mode cannot normalise a single value for each channel.",
        "Call model.eval() for single samples; in training give it more than one (drop_last=True in the loader).",
    ),
    "input.size(-1) must be equal to input_size. Expected 8, got 16": (
        "the recurrent layer takes 8 features and got 16.",
        "Make the layer for 16 features; the last dimension of its input are the features.",
    ),
    "Only Tensors of floating point and complex dtype can require gradients": (
        "integers have no gradient.",
        "Make it a tensor of floats: torch.tensor([1.0, 2.0], requires_grad=True).",
    ),
    "a Tensor with 4 elements cannot be converted to Scalar": (
        "a number was asked of a tensor of several elements.",
        "Reduce it first: .mean().item(), or take all: .tolist().",
    ),
    "expected input[4, 16, 16, 3] to have 3 channels, but got 16 channels instead": (
        "the convolution takes 3 channels in dimension 1 and the input (4, 16, 16, 3) has 16 there.",
        "Bring it to (N, C, H, W), of channels-last images permute(0, 3, 1, 2), or make the layer for 16 channels.",
    ),
    "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 8]": (
        "the number of dimensions is not what it takes: it got [3, 8].",
        "Add a batch or a channel dimension with unsqueeze(), or take one away with squeeze().",
    ),
    "Sizes of tensors must match except in dimension 1. Expected size 3 but got size 4": (
        "tensors can be joined along dimension 1 only if they agree in all others: 3 and 4.",
        "Join along the dimension that differs, or bring the others to one size.",
    ),
    "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1": (
        "stack() wants tensors of one shape and got (3) and (4).",
        "Bring them to one size (pad_sequence for sequences), or join them with cat().",
    ),
    "\"softmax\" not implemented for 'Long'": (
        "it takes floating-point values and got int64.",
        "Give it .float(); of a loss, check that the prediction comes first and the target second.",
    ),
    "Found dtype Long but expected Float": (
        "the targets are whole numbers, and this loss takes them as floating-point values.",
        "Convert the target: target.float().",
    ),
    "Found dtype Double but expected Float": (
        "it takes float32 values and one of those that it is given is float64.",
        "Convert that one, mostly the target: target.float().",
    ),
    "Function Double returned an invalid gradient at index 0 - got [3] but expected shape compatible with [4, 3]": (
        "Double gives a gradient of shape [3] for input 0, whose shape is [4, 3].",
        "Let the class's backward() return a gradient of the shape of each input.",
    ),
    "all elements of input should be between 0 and 1": (
        "binary_cross_entropy takes probabilities and got values outside 0 to 1.",
        "Use binary_cross_entropy_with_logits, or a sigmoid before it; and look at the targets.",
    ),
    "Expected 'indices' to have one of the scalar types: Long, Int; but got torch.FloatTensor instead": (
        "indices are integers and these are float32.",
        "Give it .long().",
    ),
    "result type Float can't be cast to the desired output type Int": (
        "an in-place op cannot put float32 values into a tensor of int32.",
        "Convert first: x = x.float(), or write it out of place.",
    ),
    "index 7 is out of bounds for dimension 0 with size 4": (
        "index 7 is asked of a dimension of size 4.",
        "Indices go from 0 to size - 1.",
    ),
    'Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "a".': (
        'the saved weights do not fit Net: Missing key(s) in state_dict: "a".',
        "Build the model as it was when it was saved; strict=False leaves out names that do not match.",
    ),
    "too many indices for tensor of dimension 2": (
        "it is indexed in more dimensions than the 2 that it has.",
        "Look at its shape before this line.",
    ),
    "Dimension out of range (expected to be in range of [-2, 1], but got 3)": (
        "dimension 3 is asked of a tensor whose dimensions go from -2 to 1.",
        "Look at its shape before this line.",
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_an_error_in_plain_words(text: str) -> None:
    (found,) = said(failed(text, None), ErrorRow("RuntimeError", text, 3, text))
    why, remedy = TEXTS[text]
    assert (found.message, found.remedy) == (f"Line 3 fails: {why}", remedy)
    assert (found.kind, found.severity, found.line, found.col, found.rows) == ("error", "error", 3, None, [])


def test_every_phrase_has_a_text() -> None:
    first = [next(k for k, (pattern, _, _) in enumerate(ERRORS) if pattern.search(text)) for text in TEXTS]
    assert sorted(set(first)) == list(range(len(ERRORS)))


def test_other_phrases() -> None:
    assert said(failed("nothing known", a_row()), ErrorRow("RuntimeError", "nothing known", 3, "nothing known")) == []


@pytest.mark.parametrize(("text", "given"), [
    ("index 7 is out of bounds for dimension 0 with size 4", " (given (4,) float32)"),
    ("Found dtype Float but expected Double", ""),  # no float64 was recorded: it is not this op's
    ('"exp" not implemented for \'Float\'', " (given (4,) float32)"),
])  # fmt: skip
def test_what_was_given(text: str, given: str) -> None:
    operand = a_row()
    operand.shape, operand.dtype = (4,), "float32"
    row = Row(object(), 0, "exp", (), None, 0, (operand,))
    (found,) = said(failed(text, row), ErrorRow("RuntimeError", text, 3, text))
    assert found.message.startswith("Line 3 fails in `exp`: ")
    assert found.message.endswith(f"{given}.")
    assert ("(given" in found.message) == bool(given)
    assert found.rows == [row]


@pytest.mark.parametrize("length", [160, 161])
def test_long_words_are_cut(length: int) -> None:
    text = f"Error(s) in loading state_dict for Net: {'k' * length}"
    (found,) = said(failed(text, None), ErrorRow("RuntimeError", text, 3, text))
    kept = "k" * 160 if length == 160 else "k" * 159 + "…"
    assert found.message == f"Line 3 fails: the saved weights do not fit Net: {kept}."
