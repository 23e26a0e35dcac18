"""Inline assembly in the interpreter, beside what the PTX ISA says of each instruction."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from triton_kernels.ptx import run

F = np.float32


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("ex2.approx.ftz.f32 $0, $1;", np.exp2),
        ("tanh.approx.f32 $0, $1;", np.tanh),
        ("rcp.approx.f32 $0, $1;", lambda x: 1 / x),
        ("rsqrt.approx.f32 $0, $1;", lambda x: 1 / np.sqrt(x)),
        ("cvt.rpi.f32.f32 $0, $1;", np.ceil),
        ("{ .reg .f32 t<2>; mul.f32 t0, $1, 0f40000000; fma.rn.f32 $0, t0, $1, $1; }", lambda x: 2 * x * x + x),
        ("max.f32 $0, $1, 2.5;", lambda x: np.maximum(x, F(2.5))),
    ],
)
def test_of_float32(text: str, function) -> None:  # type: ignore[no-untyped-def]
    x = np.array([0.25, 1.0, 3.5, 7.0], F)
    assert np.allclose(run(text, [x], [F])[0], function(x), rtol=1e-6)


def test_rounding_to_tf32_is_half_away_from_zero() -> None:
    x = words(0x3F801000, 0x3F800FFF, 0xBF801000, 0x7F800000).view(F)
    assert run("cvt.rna.tf32.f32 $0, $1;", [x], [np.uint32])[0].tolist() == [
        0x3F802000, 0x3F800000, 0xBF802000, 0x7F800000]  # fmt: skip


def test_the_first_source_of_two_is_the_upper_half() -> None:
    got = run("cvt.rn.bf16x2.f32 $0, $1, $2;", [np.array([1.0], F), np.array([2.0], F)], [np.uint32])[0]
    assert got.tolist() == [0x3F804000]
    got = run("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", [np.array([1e6], F), np.array([-1.0], F)], [np.uint16])[0]
    assert got.view(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(F).tolist() == [-1.0, 448.0]


def test_bytes_of_four_bits_are_put_together_and_taken_apart() -> None:
    put = "{ .reg .b8 r; cvt.rn.satfinite.e2m1x2.f32 r, $1, $2; mov.b32 $0, {r, r, r, r}; }"
    got = run(put, [np.array([6.0, 0.5], F), np.array([-1.5, 9.0], F)], [np.uint8])[0]
    assert got.tolist() == [0x7B, 0x17]
    take = "{ .reg .b8 in; .reg .f16x2 out; cvt.u8.u32 in, $1; cvt.rn.f16x2.e2m1x2 out, in; mov.b32 $0, out; }"
    assert run(take, [got], [np.uint32])[0].view(np.float16).tolist() == [-1.5, 6.0, 6.0, 0.5]


def test_elements_of_less_than_four_bytes_share_a_register() -> None:
    text = """{ .reg .b8 t<4>;
        mov.b32 {t0, t1, t2, t3}, $8;  // four elements
        cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1; cvt.u32.u8 $2, t2; cvt.u32.u8 $3, t3; }
        cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1; cvt.rn.f32.s32 $6, $2; cvt.rn.f32.s32 $7, $3;
        max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 $7, $7, $12;"""
    a, b = np.arange(10, dtype=np.uint8), np.full(10, 4.5, F)  # the Triton manual's own example
    first, second = run(text, [a, b], [np.int32, F], 4)
    assert first.tolist() == a.tolist()
    assert second.tolist() == np.maximum(a.astype(F), b).tolist()


def test_words_as_the_isa_has_them() -> None:
    a, b, c = words(0xF0F0F0F0), words(0xCCCCCCCC), words(0xAAAAAAAA)
    assert run("lop3.b32 $0, $1, $2, $3, 0xEA;", [a, b, c], [np.uint32])[0] == (a & b) | c
    assert run("prmt.b32 $0, $1, $2, 0x7250;", [words(0x44332211), words(0x88776655)], [np.uint32])[0] == 0x88336611
    assert run("bfe.s32 $0, $1, 4, 4;", [words(0xF0)], [np.int32])[0] == -1
    assert run("bfi.b32 $0, $1, $2, 8, 8;", [words(0xAB), words(0)], [np.uint32])[0] == 0xAB00
    assert run("shl.b32 $0, $1, 33;", [words(1)], [np.uint32])[0] == 0
    assert run("shr.s32 $0, $1, 40;", [words(1 << 31)], [np.int32])[0] == -1
    assert run("mul.hi.u32 $0, $1, $2;", [words(1 << 31), words(6)], [np.uint32])[0] == 3
    assert run("fma.rn.f16x2 $0, $1, $2, $2;", [words(0x40003C00), words(0x3C003C00)], [np.uint32])[0] == 0x42004000


def test_numbers_that_are_chosen() -> None:
    text = (
        "{ .reg .pred p; setp.gt.f32 p, $1, 0f00000000; selp.f32 $0, $1, 0f00000000, p; @!p mov.f32 $0, 0fBF800000; }"
    )
    assert run(text, [np.array([2.0, -3.0, math.nan], F)], [F])[0].tolist() == [2.0, -1.0, -1.0]


def test_integers_saturate_and_no_number_is_nothing() -> None:
    x = np.array([1e20, -7.5, math.nan], F)
    assert run("cvt.rzi.s32.f32 $0, $1;", [x], [np.int32])[0].tolist() == [2**31 - 1, -7, 0]
    assert run("cvt.rp.ue8m0x2.f32 $0, 0.0, $1;", [np.array([1.5, 4.0], F)], [np.uint16])[0].tolist() == [128, 129]


@pytest.mark.parametrize(
    "text",
    ["ld.global.b32 $0, [$1];", "shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", "v_rcp_f32 $0, $1", "trap; // dummy $0"],
)
def test_what_is_not_known_is_named(text: str) -> None:
    with pytest.raises(NotImplementedError, match=r"inline_asm: .* of PTX is not known"):
        run(text, [words(1)], [np.uint32])


def test_a_barrier_is_nothing() -> None:
    assert run("bar.sync 0;", [], [np.int32])[0].tolist() == [0]
