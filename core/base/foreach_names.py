"""Which ops PyTorch has over lists of tensors, as ``_foreach_<op>``: `core.ops.foreach` makes them."""

ONE = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
TWO = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max",
)  # fmt: skip
THREE = (
    "addcmul", "addcdiv",
)  # fmt: skip
OTHERS = ("lerp", "lerp_", "clone", "copy_", "max", "mm", "norm", "powsum", "zero_")
EVERY = tuple(f"_foreach_{n}" for n in (*(op + end for op in (*ONE, *TWO, *THREE) for end in ("", "_")), *OTHERS))
