"""The stages in which tests are asked about a file."""

from __future__ import annotations

from tests.mutation import asked


def test_stages() -> None:
    near, folder, conformance, core = asked.nearest("core/ops/einsum.py")
    assert near.paths == ["core/ops/einsum.py", "tests/core/ops/test_einsum.py"]  # its own examples first
    assert folder.has("tests/core/ops/test_views.py::test_a[x]")
    assert not folder.has("tests/core/nn/test_linear.py::test_a")
    assert core.has("tests/core/nn/test_linear.py::test_a")
    assert not core.has("tests/core/ops/test_views.py::test_a")
    assert conformance.has("tests/conformance/test_operations.py::test_forward[numpy-add]")
    assert not conformance.has("tests/conformance/test_operations.py::test_forward[cuda-add]")
    assert not core.has("tests/core/test_cuda_training.py::test_a")
    assert asked.every(["core/ops/einsum.py"]) == [
        "core/ops/einsum.py",
        "tests/conformance",
        "tests/core",
        "tests/test_programs.py",
    ]


def test_what_a_recording_tells() -> None:
    def run(**given):
        return {"outside": [], "readers": {}, "failed": [], "seconds": {}} | given

    file = "core/ops/einsum.py"
    recording = asked.Recording({0, 1, 2, 3}, [
        run(passed={"a": [0, 1], "b": [], "c": []}, failed=["b", "c"], readers={file: ["d"]}, outside=[3]),
        run(passed={"a": [0], "b": [], "c": [1]}, failed=["c"]),
    ])  # fmt: skip
    assert recording.passing(0, file) == {"a", "c", "d"}  # in one run b has passed, and does not run the line
    assert recording.passing(2, "core/ops/views.py") == {"c"}
    assert [recording.complete(number) for number in range(5)] == [True, False, True, False, False]
    assert not asked.Recording({0}, []).complete(0)
