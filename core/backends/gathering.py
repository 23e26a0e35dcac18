"""The CPU's kernels of ops that pick items and put them elsewhere: index, gather, scatter, triangles, flips, running
sums (native/kernels/pick.c, gather.c).

The entries take contiguous arrays and indices in range. What they leave, the op's reference computes, and the gradients
the op's own vjps.
"""

from __future__ import annotations

from typing import Any

from ..declare.kernel import kernel

_QUIET = "{} > 65536"


def _picks(name: str, arguments: str, quiet: str, **more: Any) -> None:
    more = {"quiet": _QUIET.format(quiet), "misfit": True, "half": False, **more}
    kernel(name, arguments, takes=(*more.pop("takes", ()), _axes(arguments)), **more)


def _axes(arguments: str) -> str:
    """The condition that the first array has no more axes than the kernels have room for."""
    return f"{arguments.partition(':')[0]}.ndim <= PICK_AXES"


# -- by index arrays ---------------------------------------------------------------------------------------------------

_INDICES = ", ".join(["i0: int64[*at] whole", *(f"i{k}: int64[*at]? whole" for k in range(1, 8))])
_POINTERS = f"indices({', '.join(f'i{k}' for k in range(8))})"


def _plan(x: str, also: str = "") -> str:
    found = f"index_planned(address(plan), {x}.shape, {x}.ndim, where, len(where), {_POINTERS}, i0.shape, i0.ndim)"
    return f"index_plan: {found}{also}"


def _fits(values: str) -> str:
    return f"(plan.ndim == {values}.ndim and same_sizes(plan.shape, {values}.shape, plan.ndim))"


_OWN = "own: int64[*at] if plan.count > 1"
_picks(
    "index",
    f"x: item[*all] whole, {_INDICES}, where: flags",
    "plan.outer * plan.many * plan.inner",
    plan=_plan("x"),
    scratch=_OWN,
    gives="y: item[plan]",
    call="index_pick(address(plan), x, y, own, x.item)",
)
_picks(
    "index.backward",
    f"g: real[...] whole, x_shape: shape[*all], where: flags, {_INDICES}, needs: needs",
    "all + g.size",
    plan=_plan("x_shape", f" and {_fits('g')}"),
    scratch=_OWN,
    gives="gx: real[*all]" + ", None" * 8,
    call="index_back.T(address(plan), g, gx, own)",
    takes=("x_shape.ndim <= PICK_AXES",),
)
_picks(
    "index_put",
    f"x: item[*all] whole, values: item[...] whole, {_INDICES}, where: flags, accumulate: flag",
    "x.size",
    plan=_plan("x", f" and ({_fits('values')} or (values.ndim == 0 and not accumulate))"),
    scratch=_OWN,
    gives="y: item[*all]",
    call="index_put(address(plan), ((PUTS if values.ndim else PUTS_ONE) if not accumulate else"
    " ADDS_FLOAT if x.type == NPY_FLOAT else ADDS_DOUBLE), x, y, x.size, values, own, x.item)",
    takes=("not accumulate or x.type == NPY_FLOAT or x.type == NPY_DOUBLE",),
)
_picks(
    "index_put.backward",
    f"g: real[*all] whole, where: flags, accumulate: flag, {_INDICES}, values_shape: shape[...]?, needs: needs",
    "g.size",
    plan=_plan("g", f" and (not needs[1] or {_fits('values_shape')})"),
    scratch=_OWN,
    gives="gx: real[*all] if needs[0] and not accumulate else g if needs[0], gv: real[plan] if needs[1]" + ", None" * 8,
    call="index_put_back(address(plan), g, gx, g.size, gv, own, g.item)",
)

# -- an index an item --------------------------------------------------------------------------------------------------


def _along(x: str) -> str:
    return f"pick_shape: along_planned(address(plan), {x}.shape, {x}.ndim, index.view, dim)"


_picks(
    "gather",
    "x: item[*all] whole, index: int64[*at] whole, dim: int",
    "index.size",
    plan=_along("x"),
    gives="y: item[*at]",
    call="pick_along(address(plan), index, x, y, x.item)",
)
_picks(
    "gather.backward",
    "g: real[*at] whole, x_shape: shape[*all], index: int64[*at] whole, dim: int, needs: needs",
    "index.size",
    plan=_along("x_shape"),
    gives="gx: real[*all], None",
    call="add_copied.T(address(plan), index, None, gx, all, g)",
)
_picks(
    "scatter",
    "x: item[*all] whole, index: int64[*at] whole, src: item[*at] whole, dim: int",
    "x.size",
    plan=_along("x"),
    gives="y: item[*all]",
    call="put_copied(address(plan), index, x, y, x.size, src, x.item)",
)
_picks(
    "scatter_add",
    "x: real[*all] whole, index: int64[*at] whole, src: real[*at] whole, dim: int",
    "x.size",
    plan=_along("x"),
    gives="y: real[*all]",
    call="add_copied.T(address(plan), index, x, y, x.size, src)",
)
_picks(
    "scatter_reduce",
    "x: real[*all] whole, index: int64[*at] whole, src: real[*at] whole, dim: int, reduce: text, include_self: flag",
    "x.size",
    plan=_along("x"),
    gives="y: real[*all]",
    call="reduce_copied.T(address(plan), index, x, y, x.size, src, reduce)",
    takes=("include_self",),
    fails="declines",
)
for _name, _gx in (("scatter", "needs[0]"), ("scatter_add", "False else g if needs[0]")):
    _picks(
        f"{_name}.backward",
        "g: real[*all] whole, index: int64[*at] whole, dim: int, needs: needs",
        "g.size",
        plan=_along("g"),
        gives=f"gx: real[*all] if {_gx}, None, gs: real[*at] if needs[2]",
        call="put_back(address(plan), index, g, gx, g.size, gs, g.item)",
    )

# -- copies in another order -------------------------------------------------------------------------------------------

for _suffix, _x, _type in (("", "x", "item"), (".backward", "g", "real")):
    for _name, _upper in (("tril", 0), ("triu", 1)):
        _picks(
            f"{_name}{_suffix}",
            f"{_x}: {_type}[*planes, rows, columns] whole, diagonal: int",
            f"{_x}.size",
            gives=f"y: {_type}[*planes, rows, columns]",
            call=f"triangle({_x}, y, planes, rows, columns, diagonal, {_upper}, {_x}.item)",
            takes=("-1099511627776 <= diagonal <= 1099511627776",),
        )
    _picks(
        f"flip{_suffix}",
        f"{_x}: {_type}[*all] whole, dims: ints",
        f"{_x}.size",
        plan=f"flip_plan: flip_planned(address(plan), {_x}.view, dims, len(dims))",
        gives=f"y: {_type}[*all]",
        call=f"copy_array(y, plan.start, {_x}.ndim, {_x}.shape, plan.steps, {_x}.item)",
    )
    _picks(
        f"roll{_suffix}",
        f"{_x}: {_type}[*outer, *n, *inner] whole, shifts: ints, dims: axes(n)",
        f"{_x}.size",
        gives=f"y: {_type}[*outer, *n, *inner]",
        call=f"roll_rows({_x}, y, outer, n * inner * {_x}.item,"
        f" {'-' if _suffix else ''}(shifts[0] % n) * inner * {_x}.item)",
        takes=("len(shifts) == 1", "len(dims) == 1", f"{_x}.size"),
    )
    _picks(
        f"constant_pad{_suffix}",
        f"{_x}: {_type}[*all] whole, border: pairs" + ("" if _suffix else ", value: value"),
        "sizes_multiplied(plan.shape, plan.ndim)",
        plan=f"pad_plan: pad_planned(address(plan), {_x}.view, border, len(border), {-1 if _suffix else 1})",
        gives=f"y: {_type}[plan]",
        call=f"pad_copied(address(plan), {_x}.view, y, {None if _suffix else 'value'})",
    )
    _picks(
        f"cumsum{_suffix}",
        f"{_x}: number[*outer, n, *inner] whole, dim: axis(n), reverse: flag",
        f"{_x}.size",
        gives="y: number[*outer, n, *inner]",
        call=f"running.T(RUN_SUM, {_x}, y, outer, n, inner, {'not ' if _suffix else ''}reverse)",
    )

_picks(
    "cumprod",
    "x: number[*outer, n, *inner] whole, dim: axis(n)",
    "x.size",
    gives="y: number[*outer, n, *inner]",
    call="running.T(RUN_PRODUCT, x, y, outer, n, inner, 0)",
)
for _name, _largest in (("cummax", 1), ("cummin", 0)):
    _picks(
        _name,
        "x: number[*outer, n, *inner] whole, dim: axis(n)",
        "x.size",
        gives="y: number[*outer, n, *inner], at: int64[*outer, n, *inner]",
        call=f"running_extreme.T({_largest}, x, y, at, outer, n, inner)",
    )
_picks(
    "logcumsumexp",
    "x: real[*outer, n, *inner], dim: axis(n)",
    "x.size",
    gives="y: real[*outer, n, *inner]",
    call="running_log.T(x, y, outer, n, inner)",
)
