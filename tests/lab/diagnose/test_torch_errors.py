"""Errors of PyTorch's in plain words, by their texts alone: no PyTorch is needed, and none is here."""

from __future__ import annotations

import pytest

from lab.diagnose.errors.torch_errors import NAMES, PATTERNS, given, said
from lab.recorder.cell_trace import Row, Trace
from widgets.record import ErrorRow

KINDS = {
    "mat1 and mat2 must have the same dtype, but got Double and Float":
        ("it takes tensors of one dtype and got float64 and float32; NumPy makes float64",
         "Convert the data once, where it is made: .float()."),
    "mat1 and mat2 must have the same dtype, but got Half and Float":
        ("it takes tensors of one dtype and got float16 and float32",
         "Bring both to one dtype with .to(dtype), or run it under autocast."),
    "expected m1 and m2 to have the same dtype, but got: double != float":
        ("it takes tensors of one dtype and got float64 and float32; NumPy makes float64",
         "Convert the data once, where it is made: .float()."),
    "expected scalar type Long but found Float":
        ("it wants int64 and got float32", "Class numbers and indices are int64: give it .long()."),
    "expected scalar type Float but found Double":
        ("it wants float32 and got float64; NumPy makes float64", "Convert the data once, where it is made: .float()."),
    "expected scalar type Half but found Float":
        ("it wants float16 and got float32", "Bring both to one dtype with .to(dtype), or run it under autocast."),
    "mat1 and mat2 shapes cannot be multiplied (64x16 and 8x4)":
        ("the input has 16 features (64×16) and the weight takes 8 (8×4)",
         "Make the layer for 16 features, or bring the input to 8: flatten(1), transpose or permute."),
    "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1":
        ("dimension 1 has 3 elements on one side and 4 on the other, and only 1 can be stretched",
         "Bring both to one shape: unsqueeze, squeeze or permute one of them."),
    "a leaf Variable that requires grad is being used in an in-place operation.":
        ("a parameter is changed in place while its gradient graph is on",
         "Change it under no_grad: with torch.no_grad(): w -= lr * w.grad, then w.grad = None."),
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!":
        ("its tensors are on two devices", "Move the data where the model is: x = x.to(device)."),
    "Target 7 is out of bounds.":
        ("class number 7 is not among the outputs of the model",
         "Give the last layer as many outputs as there are classes, and number the classes from 0."),
    "index out of range in self":
        ("an index is not below the number of rows of the embedding",
         "Make the embedding as large as the largest index + 1, or look at the indices."),
    "grad can be implicitly created only for scalar outputs":
        ("backward() begins with one number and got several", "Reduce it first: loss.mean().backward()."),
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.":
        ("NumPy cannot carry the graph of a tensor that requires a gradient",
         "Use .detach().numpy() to look at values, and torch's own functions for what is trained."),
    "can't convert cuda:0 device type tensor to numpy.":
        ("the tensor is on the GPU and NumPy is not", "Use .detach().cpu().numpy()."),
}  # fmt: skip


def failed(message: str, row: Row | None) -> Trace:
    trace = Trace()
    if row is not None:
        other = Row(object(), 1, "relu", (), None, 0, ())  # ran after it, and well
        row.error = f"RuntimeError: {message}"
        trace.rows = [row, other]
    return trace


def a_row() -> Row:
    return Row(object(), 0, "addmm", (), None, 0, ())


@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("known", [True, False])
def test_known_errors(message: str, known: bool) -> None:
    row = a_row() if known else None
    (found,) = said(failed(message, row), ErrorRow("RuntimeError", message, 7, message))
    why, remedy = KINDS[message]
    place = "Line 7 fails in `addmm`" if known else "Line 7 fails"
    assert (found.message, found.remedy) == (f"{place}: {why}.", remedy)
    assert (found.kind, found.severity, found.line) == ("error", "error", 7)
    assert found.rows == ([row] if known else [])


def test_every_pattern_has_a_text() -> None:
    assert all(any(pattern.search(message) for message in KINDS) for pattern, _ in PATTERNS)


def test_other_errors() -> None:
    row = a_row()
    (found,) = said(failed("it is broken.", row), ErrorRow("RuntimeError", "it is broken.", 3, "it is broken."))
    assert (found.message, found.rows) == ("Line 3 fails in `addmm`: it is broken.", [row])
    assert found.remedy == "Look at what it is given, here and one op before."
    assert said(failed("it is broken.", None), ErrorRow("RuntimeError", "it is broken.", 3, "it is broken.")) == []
    assert said(failed("it is broken.", a_row()), ErrorRow("RuntimeError", "", 3, "")) == []


def test_what_it_was_given() -> None:
    first, second = a_row(), a_row()
    first.shape, first.dtype, second.shape, second.dtype = (64, 16), "float32", (16,), "int64"
    row = Row(object(), 2, "add", (), None, 0, (first, second))
    assert given(row) == " (given (64, 16) float32, (16,) int64)"
    row.given = [((3,), "bool", None), ((4,), "uint8", None)]  # in the run that failed
    assert given(row) == " (given (3,) bool, (4,) uint8)"
    row.given.pop()
    assert given(row) == " (given (64, 16) float32, (16,) int64)"
    assert given(Row(object(), 3, "cat", (), None, 0, (second,) * 5)).count("int64") == 4
    assert given(a_row()) == given(None) == ""


def test_names_of_dtypes() -> None:
    assert set(NAMES.values()) == {"float64", "float32", "float16", "bfloat16", "int64", "int32", "bool", "uint8"}
    same = [("Double", "double"), ("Float", "float"), ("Half", "c10::Half"), ("BFloat16", "c10::BFloat16"),
            ("Long", "long"), ("Int", "int")]  # fmt: skip
    assert all(NAMES[a] == NAMES[b] for a, b in same)
