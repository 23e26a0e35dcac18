"""How each scalar primitive is spelt in Triton. No triton import: core's expression printer reads this table.

``{0} {1} {2}`` are the operands: names of values, or Python literals. `elementwise.build` makes literals inside calls
scalars of the compute type, so that a float64 kernel keeps every digit of ``tl.where(c, 0.1, 0.2)``.
"""

from __future__ import annotations

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_TL = {"abs": "abs", "log": "log", "log2": "log2", "exp2": "exp2", "sin": "sin", "cos": "cos", "erf": "erf",
       "floor": "floor", "ceil": "ceil"}  # fmt: skip
_UNARY = [
    "exp", "expm1", "log10", "log1p", "sqrt", "rsqrt", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erfc", "sigmoid", "trunc", "round", "sign", "isnan", "isinf", "isfinite",
]  # fmt: skip
_BINARY = ["div", "pow", "atan2", "fmod", "remainder", "floor_divide", "maximum", "minimum", "hypot", "copysign"]

PRIMITIVES: dict[str, str] = {name: f"({{0}} {sign} {{1}})" for name, sign in _OPERATORS.items()}
PRIMITIVES |= {
    "neg": "({0} * -1.0)",  # unary minus was 0 - x in older Tritons, which loses the sign of zero
    "not": "({0} == 0)",  # ~ of a bool is arithmetic in Python, and an operand may be a literal
    "where": "tl.where({0}, {1}, {2})",
}
PRIMITIVES |= {name: f"tl.{spelling}({{0}})" for name, spelling in _TL.items()}
PRIMITIVES |= {name: f"scalar.{name}({{0}})" for name in _UNARY}
PRIMITIVES |= {name: f"scalar.{name}({{0}}, {{1}})" for name in _BINARY}
