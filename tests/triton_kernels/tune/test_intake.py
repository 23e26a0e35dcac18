"""What other people's kernels use that the interpreter lacks, and memory that is read beyond an array's end."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

from triton_kernels import tune
from triton_kernels.tune.problem import Unknown

from .test_capture import floats, why


@triton.jit
def scaled_past(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2.0 * tl.load(x + at), mask=at < n)


@triton.jit
def summed_past(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK))))


def test_what_is_read_past_an_array_may_change_no_result():
    x, out = floats(100), np.zeros(100, np.float32)
    with tune.capture() as seen:
        scaled_past[lambda given: (triton.cdiv(100, given["BLOCK"]),)](x, out, 100, BLOCK=64)
    np.testing.assert_array_equal(out, 2 * x)
    problem = seen.problem(configs={"BLOCK": (64, 32, 256)}, target="sm_90")
    assert any("none of its arguments' (out-of-bounds load of 4 bytes: 28 of 64" in note for note in problem.notes)
    assert not why(problem, {})
    assert not why(problem, {"BLOCK": 256})


def test_what_is_read_past_an_array_and_used_is_refused():
    with tune.capture() as seen:
        summed_past[(1,)](floats(100), np.zeros(1, np.float32), BLOCK=128)
    with pytest.raises(Unknown, match=r"summed_past: it asks for memory .* Remedy: an array as large"):
        seen.problem()


def test_another_config_may_not_use_what_it_reads_past_an_array():
    @triton.jit
    def both(x, out, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        read = tl.load(x + at)
        tl.store(out + at, read, mask=at < n)
        if BLOCK > 128:
            tl.store(out, tl.sum(read))

    with tune.capture() as seen:
        both[(1,)](floats(100), np.zeros(100, np.float32), 100, BLOCK=128)
    assert why(seen.problem(configs={"BLOCK": (128, 256)}, target="sm_90"), {"BLOCK": 256})


def test_configs_that_differ_in_warps_alone_are_said_to():
    with tune.capture() as seen:
        scaled_past[(2,)](floats(128), floats(128), 128, BLOCK=64)
    notes = seen.problem(configs=[triton.Config({}, num_warps=n) for n in (4, 8)], target="sm_90").notes
    assert any(note.startswith("warps and stages only") for note in notes)


@triton.jit
def gathered(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out + at // 4, tl.load(x + at), mask=at < 12)


def test_atomic_operations_on_bfloat16():
    x, out = np.arange(16).astype(ml_dtypes.bfloat16), np.ones(4, ml_dtypes.bfloat16)
    with tune.capture() as seen:
        gathered[(1,)](x, out, BLOCK=16)
    assert out.astype(float).tolist() == [7.0, 23.0, 39.0, 1.0]
    assert seen.launches[0].roles["out"] == "partly atomic"


@triton.jit
def added(x, out, n, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    of = tl.make_tensor_descriptor(x, [n, m], [m, 1], [ROWS, COLUMNS])
    into = tl.make_tensor_descriptor(out, [n, m], [m, 1], [ROWS, COLUMNS])
    into.atomic_add([0, 0], of.load([0, 0]))
    into.atomic_add([0, 0], of.load([0, 0]))


def test_descriptors_add():
    x, out = floats(6, 8), np.ones((6, 8), np.float32)
    with tune.capture():
        added[(1,)](x, out, 6, 8, ROWS=8, COLUMNS=8)
    np.testing.assert_array_equal(out, 1 + x + x)


@triton.jit
def larger(a, b):
    return a if a > b else b


@triton.jit
def of_a_gpu(x, y, out, of, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    tl.store(of, tl.extra.cuda.smid())
    tl.store(of + 1, tl.extra.cuda.num_warps())
    tl.store(out + at, tl.map_elementwise(larger, tl.load(x + at), tl.load(y + at)))
    tl.extra.cuda.gdc_launch_dependents()


def test_words_for_a_gpu_alone():
    x, y, out, of = floats(8), floats(8), np.zeros(8, np.float32), np.full(2, -1, np.int32)
    with tune.capture():
        of_a_gpu[(1,)](x, y, out, of, BLOCK=8, num_warps=8)
    np.testing.assert_array_equal(out, np.maximum(x, y))
    assert of.tolist() == [0, 8]


@triton.jit
def product_of_bf16s(a, b, c):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision="bf16x3"))


def test_a_product_in_three_of_bfloat16():
    a, b, c = floats(16, 16), floats(16, 16), floats(16, 16)
    with tune.capture():
        product_of_bf16s[(1,)](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@triton.jit
def repeated(x, TIMES: tl.constexpr):
    for _ in range(TIMES.value):
        x += 1.0
    return x


@triton.jit
def by_its_value(x, out, TIMES: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK.value)
    tl.store(out + at, repeated(tl.load(x + at).to(KIND.value), TIMES))


def test_a_constant_is_asked_for_its_value():
    x, out = floats(8), floats(8)
    with tune.capture() as seen:
        by_its_value[(1,)](x, out, 3, tl.float32, BLOCK=8)
    np.testing.assert_allclose(out, x + 3.0, rtol=1e-6)
    assert not why(seen.problem(target="sm_90"), {"num_warps": 2})


@triton.jit
def by_libdevice(x, out, whole):
    at = tl.arange(0, 4)
    v = tl.load(x + at)
    tl.store(out + at, libdevice.sqrt_rn(v) + libdevice.add_rz(v, 1e-9) + libdevice.normcdf(v) + libdevice.erfinv(0.5))
    bits = libdevice.float_as_int(v)
    tl.store(whole + at, libdevice.popc(bits) + libdevice.clz(bits) + libdevice.ffs(bits) + libdevice.float2int_ru(v))


def test_functions_of_libdevice():
    x, out, whole = np.array([0.5, 1.0, 2.5, 4.0], np.float32), np.zeros(4, np.float32), np.zeros(4, np.int32)
    with tune.capture():
        by_libdevice[(1,)](x, out, whole)
    expected = np.sqrt(x) + x + [0.6914625, 0.8413447, 0.9937903, 0.9999683] + np.float32(0.4769363)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    bits = [int(each) for each in x.view(np.uint32)]
    assert whole.tolist() == [b.bit_count() + 32 - b.bit_length() + (b & -b).bit_length() + int(np.ceil(v))
                              for b, v in zip(bits, x, strict=True)]  # fmt: skip
