"""The scalar functions that `tl` lacks or that lose digits on a GPU, for float32 and float64, in `tl` operators alone.

Written without libdevice and inline assembly, so that each runs in the interpreter and compiles for NVIDIA and AMD.
Largest errors over the whole domain, in units in the last place, as tests/triton_kernels/test_scalar.py holds them to;
infinities, NaN and the sign of zero are those of NumPy.

| function | float32 | float64 | remark |
|---|---|---|---|
| div sqrt rsqrt | 0.5 0.5 1.5 | 0.5 0.5 1.5 | `/` and tl.sqrt are approximations on a GPU |
| exp | 3 | 1 | tl.exp is off by 1.2 abs(x) ulp on NVIDIA: this reduces its argument first |
| expm1 log1p log10 | 3 3 5 | 3 3 4 | as good as log |
| sigmoid tanh sinh cosh | 4 4 5 5 | 4 4 5 5 | |
| asinh acosh atanh | 5 | 5 | |
| tan asin acos atan atan2 | 4 | 4 | |
| erfc | 8 | 8 | relative, in the tail as well |
| pow | 1 | 3 + 2 abs(y log x) | float32 is computed in float64 |
| hypot | 1 | 2 | |
| fmod remainder floor_divide | exact | exact | abs(x / y) < 2**28 (float32), 2**52 (float64, where fma is fused) |

Built on tl's abs, exp2, log, sin, cos, floor and ceil. On NVIDIA those flush float32 subnormals to zero.
Sources: Cody and Waite, Software Manual for the Elementary Functions (1980), the reduction of exp; Moshier, Cephes,
atan; Goldberg, What every computer scientist should know about floating point (1991), log1p; the polynomials of erfc
are Chebyshev interpolants of erfcx(x) (1 + 2 x) in (x - K) / (x + K), after Shepherd and Laframboise (1981).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
import triton
import triton.language as tl


@triton.jit
def signbit(x):
    if x.dtype == tl.float64:
        negative = x.to(tl.int64, bitcast=True) < 0
    else:
        negative = x.to(tl.int32, bitcast=True) < 0
    return negative


@triton.jit
def copysign(x, y):
    a = tl.abs(x)
    return tl.where(signbit(y), a * -1.0, a)


@triton.jit
def isnan(x):
    return x != x


@triton.jit
def isinf(x):
    return tl.abs(x) == float("inf")


@triton.jit
def isfinite(x):
    return tl.abs(x) < float("inf")


@triton.jit
def sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, x + 0.0))  # x + 0.0: a zero without sign, and NaN


@triton.jit
def trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def round(x):
    # Adding 2**p pushes the fraction out under the rounding mode, which is to nearest, ties to even.
    a = tl.abs(x)
    if x.dtype == tl.float64:
        whole = tl.where(a < 4503599627370496.0, (a + 4503599627370496.0) - 4503599627370496.0, a)
    else:
        whole = tl.where(a < 8388608.0, (a + 8388608.0) - 8388608.0, a)
    return copysign(whole, x)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def div(x, y):
    if y.dtype == tl.float64:
        quotient = x / y
    else:
        quotient = tl.div_rn(x, y)  # `/` is div.full: two ulp, and zero for divisors above 2**126
    return quotient


@triton.jit
def sqrt(x):
    if x.dtype == tl.float64:
        root = tl.sqrt(x)
    else:
        root = tl.sqrt_rn(x)
    return root


@triton.jit
def rsqrt(x):
    return div(1.0, sqrt(x))


@triton.jit
def power_of_two(n):
    """2**n for a whole float n within the normal exponents, made from its bits: tl.exp2 is an approximation."""
    if n.dtype == tl.float64:
        y = ((n.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        y = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return y


@triton.jit
def exp(x):
    if x.dtype == tl.float64:
        y = tl.exp(x)
    else:
        c = tl.minimum(tl.maximum(x, -110.0), 89.0)
        n = tl.floor(c * 1.4426950408889634 + 0.5)
        r = (c - n * 0.693359375) - n * -2.12194440e-4  # n * 0.693359375 is exact: the constant has ten bits
        half = tl.floor(n * 0.5)  # 2**n in two factors: n runs from below the subnormals to above the largest
        y = (tl.exp(r) * power_of_two(half)) * power_of_two(n - half)
        y = tl.where(x != x, x, y)
    return y


@triton.jit
def expm1(x):
    # x = n log 2 + r, |r| < 0.35: expm1(x) = 2**n expm1(r) + (2**n - 1), whose last term is exact or negligible.
    if x.dtype == tl.float64:
        c = tl.minimum(tl.maximum(x, -60.0), 710.0)
        n = tl.floor(c * 1.4426950408889634 + 0.5)
        r = (c - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        q = (
            (((((((((((1.1470745597729725e-11 * r + 1.6059043836821613e-10) * r + 2.08767569878681e-09) * r +
            2.505210838544172e-08) * r + 2.755731922398589e-07) * r + 2.7557319223985893e-06) * r +
            2.48015873015873e-05) * r + 0.0001984126984126984) * r + 0.001388888888888889) * r +
            0.008333333333333333) * r + 0.041666666666666664) * r + 0.16666666666666666) * r + 0.5
        )  # fmt: skip
    else:
        c = tl.minimum(tl.maximum(x, -60.0), 89.0)
        n = tl.floor(c * 1.4426950408889634 + 0.5)
        r = (c - n * 0.693359375) - n * -2.12194440e-4
        q = (
            (((((2.48015873015873e-05 * r + 0.0001984126984126984) * r + 0.001388888888888889) * r +
            0.008333333333333333) * r + 0.041666666666666664) * r + 0.16666666666666666) * r + 0.5
        )  # fmt: skip
    half = power_of_two(n - 1.0)  # half of 2**n, which itself may be past the largest number
    y = 2.0 * (half * (r + r * r * q) + (half - 0.5))
    return tl.where((x == 0) | (x != x), x, y)


@triton.jit
def log1p(x):
    u = x + 1.0
    y = tl.log(u) + div(x - (u - 1.0), u)  # the second term is what rounding took from u
    return tl.where((x == 0) | (u == float("inf")), x, tl.where(u == 0, -float("inf"), y))


@triton.jit
def log10(x):
    y = tl.log(x)
    return y * 0.43408203125 + y * 0.00021245065325176116  # 1 / log 10 in two parts, the first of eleven bits


@triton.jit
def sigmoid(x):
    e = exp(tl.abs(x) * -1.0)
    return div(tl.where(x < 0, e, 1.0), 1.0 + e)


@triton.jit
def tanh(x):
    t = expm1(tl.abs(x) * -2.0)
    return copysign(div(t, t + 2.0), x)


@triton.jit
def sinh(x):
    a = tl.abs(x)
    t = expm1(a)
    w = exp(a * 0.5)
    y = tl.where(a > 40.0, (w * 0.5) * w, 0.5 * (t + div(t, t + 1.0)))
    return copysign(y, x)


@triton.jit
def cosh(x):
    a = tl.abs(x)
    e = exp(a)
    w = exp(a * 0.5)
    return tl.where(a > 40.0, (w * 0.5) * w, 0.5 * e + div(0.5, e))


@triton.jit
def asinh(x):
    a = tl.abs(x)
    s = a * a
    y = log1p(a + div(s, 1.0 + sqrt(s + 1.0)))
    y = tl.where(a > 1e8, tl.log(a) + 0.6931471805599453, y)
    return copysign(y, x)


@triton.jit
def acosh(x):
    t = x - 1.0
    y = log1p(t + sqrt(t * (t + 2.0)))
    y = tl.where(x > 1e8, tl.log(x) + 0.6931471805599453, y)
    return tl.where(x < 1.0, float("nan"), y)


@triton.jit
def atanh(x):
    a = tl.abs(x)
    return copysign(0.5 * log1p(div(a + a, 1.0 - a)), x)


@triton.jit
def tan(x):
    return tl.where(x == 0, x, div(tl.sin(x), tl.cos(x)))


@triton.jit
def atan(x):
    # Reduced to |r| <= tan(pi/8) by atan(a) = pi/2 + atan(-1/a) and pi/4 + atan((a - 1) / (a + 1)).
    a = tl.abs(x)
    large = a > 2.414213562373095
    if x.dtype == tl.float64:
        middle = a > 0.66
    else:
        middle = a > 0.4142135623730950
    r = div(tl.where(large, -1.0, tl.where(middle, a - 1.0, a)), tl.where(large, a, tl.where(middle, a + 1.0, 1.0)))
    z = r * r
    if x.dtype == tl.float64:
        p = (
            (((-0.8750608600031904 * z + -16.157537187333652) * z + -75.00855792314705) * z +
            -122.88666844901361) * z + -64.85021904942025
        )  # fmt: skip
        d = (
            ((((z + 24.858464901423062) * z + 165.02700983169885) * z + 432.88106049129027) * z +
            485.3903996359137) * z + 194.5506571482614
        )  # fmt: skip
        p = p / d
        rest = tl.where(large, 6.123233995736766e-17, tl.where(middle, 3.061616997868383e-17, 0.0))
    else:
        p = ((0.0805374449538 * z + -0.138776856032) * z + 0.199777106478) * z + -0.333329491539
        rest = tl.where(large, -4.371139e-08, tl.where(middle, -2.1855694e-08, 0.0))
    base = tl.where(large, z * 0.0 + 1.5707963267948966, tl.where(middle, z * 0.0 + 0.7853981633974483, 0.0))
    return copysign(base + (r + (z * r * p + rest)), x)


@triton.jit
def asin(x):
    return tl.where(x == 0, x, atan(div(x, sqrt((1.0 - x) * (1.0 + x)))))


@triton.jit
def acos(x):
    return 2.0 * atan(sqrt(div(1.0 - x, 1.0 + x)))


@triton.jit
def atan2(y, x):
    a = tl.abs(x)
    b = tl.abs(y)
    q = div(b, a)
    q = tl.where(b == 0, 0.0, tl.where((b == a) & isinf(b), 1.0, q))
    t = atan(q)
    if x.dtype == tl.float64:
        turned = (3.141592653589793 - t) + 1.2246467991473532e-16
    else:
        turned = (3.1415927410125732 - t) + -8.742278e-08
    t = tl.where(signbit(x), turned, t)
    return tl.where((x != x) | (y != y), x + y, copysign(t, y))


@triton.jit
def erfc(x):
    # exp(-a*a) in two factors: the square of a's leading bits is exact.
    if x.dtype == tl.float64:
        a = tl.minimum(tl.abs(x), 28.0)
        lead = (a.to(tl.int64, bitcast=True) & -134217728).to(tl.float64, bitcast=True)
        q = (a - 4.0) / (a + 4.0)
        p = (
            ((((((((((((((((((((((9.655408225482863e-10 * q + 1.5712153638319064e-09) * q +
            -1.2544825403855518e-08) * q + -1.6357383982124768e-08) * q + 1.0683442926744586e-07) * q +
            7.111912428010423e-08) * q + -8.218020654813044e-07) * q + 2.980596055322769e-07) * q +
            5.707239573693257e-06) * q + -1.1225140354449658e-05) * q + -2.439811794207995e-05) * q +
            0.0001506231178516207) * q + -0.00019925700412184815) * q + -0.0007577737141838885) * q +
            0.005031970032548695) * q + -0.01619773397992426) * q + 0.0371675155318432) * q +
            -0.06633036582050367) * q + 0.09373283499865172) * q + -0.10103906603585294) * q +
            0.0680970542546862) * q + 0.015379652102610162) * q + -0.1396211168405625) * q +
            1.2329951186255526
        )  # fmt: skip
    else:
        a = tl.minimum(tl.abs(x), 11.0)
        lead = (a.to(tl.int32, bitcast=True) & -4096).to(tl.float32, bitcast=True)
        q = div(a - 2.5, a + 2.5)
        p = (
            ((((((((((-6.471063534263521e-05 * q + -6.389437476173043e-05) * q + 0.0005834769108332694) * q +
            0.00046327983727678657) * q + -0.004358277190476656) * q + 0.0009468088974244893) * q +
            0.03275548294186592) * q + -0.10297055542469025) * q + 0.15763036906719208) * q +
            -0.09902423620223999) * q + -0.12235677242279053) * q + 1.2648382186889648
        )  # fmt: skip
    rest = (a - lead) * (a + lead)
    series = 1.0 - rest * (1.0 - rest * (0.5 - rest * (0.16666666666666666 - rest * 0.041666666666666664)))
    tail = div(p, 1.0 + 2.0 * a) * series
    y = tail * exp(lead * lead * -1.0)
    return tl.where(x != x, x, tl.where(x < 0, 2.0 - y, y))


@triton.jit
def pow(x, y):
    a = tl.abs(x.to(tl.float64))
    e = y.to(tl.float64)
    p = tl.exp(e * tl.log(a))
    whole = tl.floor(e) == e
    odd = whole & (tl.floor(e * 0.5) * 2.0 != e)
    p = tl.where(signbit(x), tl.where(odd, p * -1.0, tl.where(whole | (a == 0) | isinf(a), p, float("nan"))), p)
    p = tl.where(isinf(e) & (a == 1.0), 1.0, p)
    p = tl.where((e == 0) | (x == 1.0), 1.0, tl.where(e == 1.0, x.to(tl.float64), p))
    return p.to(x.dtype)


@triton.jit
def hypot(x, y):
    a = tl.abs(x)
    b = tl.abs(y)
    if x.dtype == tl.float64:
        m = maximum(a, b)
        q = tl.minimum(a, b) / m
        h = tl.where(m == 0, m, m * tl.sqrt(1.0 + q * q))
    else:
        a = a.to(tl.float64)
        b = b.to(tl.float64)
        h = tl.sqrt(a * a + b * b).to(tl.float32)
    return tl.where(isinf(x) | isinf(y), float("inf"), h)


@triton.jit
def fmod(x, y):
    # One exact step: the quotient, off by one at most, times y, taken from x without rounding; then put right.
    a = tl.abs(x.to(tl.float64))
    b = tl.abs(y.to(tl.float64))
    r = tl.fma(tl.floor(a / b), b * -1.0, a)
    r = tl.where(r < 0, r + b, r)
    r = tl.where(r >= b, r - b, r)
    r = tl.where(a < b, a, r)  # an infinite divisor, too
    return copysign(r.to(x.dtype), x)


@triton.jit
def remainder(x, y):
    r = fmod(x, y)
    return tl.where(r == 0, copysign(r, y), tl.where((r < 0) != (y < 0), r + y, r))


@triton.jit
def floor_divide(x, y):
    # Python's rule: from the exact remainder, since floor(x / y) may round up to the next whole number.
    r = fmod(x, y)
    q = div(x - r, y)
    q = tl.where((r != 0) & ((r < 0) != (y < 0)), q - 1.0, q)
    f = tl.floor(q)
    f = tl.where(q - f > 0.5, f + 1.0, f)
    f = tl.where(q == 0, copysign(q, x) * sign_of(y), f)
    return tl.where(y == 0, div(x, y), f)


@triton.jit
def sign_of(x):
    return tl.where(signbit(x), -1.0, 1.0)
