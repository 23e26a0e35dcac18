"""A group of fused items as a C block: loops over rows, and over the elements of a row in as many stages as its
reductions ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..declare import expr
from .groups import Group
from .ir import ExportError, Sized
from .plan import C_TYPES, Access, Buffer, Index, Item, row_major
from .polynomial import Count, Poly, c_text, product

REGISTER = {**C_TYPES, "bool": "int"}
_SUFFIX = {"float32": "f32", "float64": "f64", "bool": "u8"}
_WHOLE = {"add": "add_i64({0}, {1})", "sub": "sub_i64({0}, {1})", "mul": "mul_i64({0}, {1})", "neg": "sub_i64(0, {0})",
          "where": "({0} ? {1} : {2})", "eq": "({0} == {1})", "ne": "({0} != {1})", "lt": "({0} < {1})",
          "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})", "and": "({0} && {1})",
          "or": "({0} || {1})", "xor": "(!{0} != !{1})", "not": "(!{0})", "maximum": "larger({0}, {1})",
          "minimum": "smaller({0}, {1})", "abs": "abs_i64({0})", "sign": "sign_i64({0})",
          "floor_divide": "whole_quotient({0}, {1})", "remainder": "whole_remainder({0}, {1})",
          "fmod": "fmod_i64({0}, {1})", "pow": "pow_i64({0}, {1})", "isnan": "(0 && {0})", "isinf": "(0 && {0})",
          "isfinite": "(1 || {0})"} | dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}")  # fmt: skip


def row_suffix(dtype: str) -> str:
    """Return which of the functions of rows a dtype has."""
    return _SUFFIX.get(dtype, "i64")


def number(x: Any, kind: str) -> str:
    """Return a number as C, of the dtype that is computed in."""
    if isinstance(x, Sized):
        text = real_text(x.formula)
        return f"({C_TYPES[kind]}){text}" if kind.startswith("float") else f"whole({text})"
    if isinstance(x, Poly):
        return f"({REGISTER[kind]})({c_text(x)})"
    if kind.startswith("float"):
        return expr.c_operand(float(x), row_suffix(kind))
    if isinstance(x, float) and x != int(x):
        raise ExportError(f"cannot write C: {x} among whole numbers\n  remedy: .float() before")
    if abs(int(x)) >= 2**31:
        return f"INT64_C({int(x)})" if int(x) > -(2**63) else "INT64_MIN"
    return str(int(x)) if int(x) >= 0 else f"({int(x)})"


def real_text(formula: Any) -> str:
    """Return a formula with numbers that are not whole as a C double."""
    if not isinstance(formula, tuple):
        return f"(double)({c_text(formula)})" if isinstance(formula, Poly | int) else repr(float(formula))
    left, right = (real_text(part) for part in formula[1:])
    if formula[0] == "**":
        return f"pow({left}, {right})"
    if formula[0] == "//":
        return f"floor({left} / {right})"
    if formula[0] == "%":
        raise ExportError("cannot write C: a remainder of numbers that are not whole")
    return f"({left} {formula[0]} {right})"


def converted(text: str, source: str, kind: str) -> str:
    """Return a value of one dtype as one of another."""
    if source == kind:
        return text
    if kind == "bool":
        return f"({text} != 0)"
    if source.startswith("float") and not kind.startswith("float"):
        whole = f"whole({text})"
        return whole if kind == "int64" else f"({C_TYPES[kind]}){whole}"
    return f"({C_TYPES[kind]}){text}"


def statements(op: Any, params: tuple[Any, ...], operands: list[str], kind: str, name: str) -> tuple[list[str], str]:
    """Return the C lines of a traced op and its result; `name` goes before the names of what is in between."""
    traced = op
    suffix = "f64" if kind == "float64" else "f32"
    real = kind.startswith("float")
    names: dict[str, str] = dict(zip(traced.inputs, operands, strict=True))
    names |= {n: number(p, kind) for n, p in zip(traced.params, params, strict=True)}
    lines = traced.statements
    if real:
        lines = expr.contracted(lines, traced.result, suffix)
    renamed = []
    for st in lines:
        names[st.target] = f"{name}_{st.target}" if st.target != traced.result else name
        given = tuple(names.get(o, o) if isinstance(o, str) else o for o in st.operands)
        renamed.append(st._replace(target=names[st.target], operands=given))
    result = names.get(traced.result, traced.result) if isinstance(traced.result, str) else number(traced.result, kind)
    if real:
        return expr.c_statements(renamed, suffix), result
    text = []
    for st in renamed:
        spelling = _WHOLE.get(st.op)
        if spelling is None:
            raise ExportError(f"cannot write C: {traced.name} of {kind} numbers ({st.op})\n  remedy: .float() before")
        values = [o if isinstance(o, str) else number(o, "int64") for o in st.operands]
        declared = "int" if st.is_bool else "int64_t"
        text.append(f"const {declared} {st.target} = {spelling.format(*values)};")
    return text, result


def near_lines(lines: list[str], tests: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return lines of C with the quick functions in place of those for any operands, and what tells where an operand is
    not for these: `tests` names them, ``sm_<name>_near_f32``, and which function says so."""
    called = re.compile(rf"\bsm_({'|'.join(tests)})_f32\(([^()]*)\)")
    found = dict.fromkeys(f"far_ |= {tests[m[1]]}({m[2]});" for line in lines for m in called.finditer(line))
    return [called.sub(r"sm_\1_near_f32(\2)", line) for line in lines], list(found)


class GroupWriter:
    """Writes one group.

    near : the functions of which float32 has a quicker one for operands that are near, with the test that one is not:
        a row is then made by these, and once more by the others where it has such an operand.
    """

    def __init__(self, group: Group, held: set[Buffer], pointer: Any, near: Mapping[str, str] | None = None) -> None:
        self.group, self.held, self.pointer, self.near = group, held, pointer, near
        self.lead, self.row, self.items = self._collapsed()
        self.stage = self._stages()
        self.span: tuple[str, str] | None = None
        self.fars = 0
        self.lines: list[str] = []
        self.pointers: dict[Any, str] = {}  # (buffer, offset, strides) -> name of its pointer
        self.scalars: dict[Any, str] = {}
        self.producer = {item.out.buffer: k for k, item in enumerate(self.items)}
        self.width = product(self.row)
        self.scratch = self._scratch()

    # -- the space -----------------------------------------------------------------------------------------------------

    def _collapsed(self) -> tuple[tuple[Count, ...], tuple[Count, ...], list[Item]]:
        """Return rows, row and items with axes joined wherever all memory allows it."""
        g = self.group
        inner = g.inner
        items = [i._replace(out=i.out.padded(inner) if row else i.out,
                            operands=tuple(x.padded(inner) if isinstance(x, Access) and row else x for x in i.operands))
                 for i, row in zip(g.items, g.of_row, strict=True)]  # fmt: skip
        local = g.written - self.held
        accesses = [x for i in items for x in (*i.reads(), i.out) if x.buffer not in local]
        accesses += [i.out for i in items if i.out.buffer in local]  # rows stay rows
        indexed = {x.axis for i in items for x in i.operands if isinstance(x, Index)}
        border = len(g.space) - inner
        parts: list[list[int]] = []
        for axis in range(len(g.space)):
            before = axis - 1
            joins = (parts and axis != border and axis not in indexed and before not in indexed
                     and all(x.strides[before] == x.strides[axis] * g.space[axis] for x in accesses))  # fmt: skip
            if joins:
                parts[-1].append(axis)
            else:
                parts.append([axis])
        space = tuple(product(g.space[a] for a in p) for p in parts)
        place = {a: k for k, p in enumerate(parts) for a in p}

        def joined(x: Any) -> Any:
            if isinstance(x, Access):
                return Access(x.buffer, x.offset, tuple(x.strides[p[-1]] for p in parts))
            return Index(place[x.axis]) if isinstance(x, Index) else x

        items = [i._replace(operands=tuple(joined(x) for x in i.operands), out=joined(i.out)) for i in items]
        count = sum(p[0] >= border for p in parts) if inner else min(1, len(parts))
        cut = len(space) - count
        return space[:cut], space[cut:], items

    def _is_row(self, k: int) -> bool:
        return self.group.of_row[k]

    def _stages(self) -> list[int]:
        """Return for each item after how many passes over the row it can be computed."""
        found: list[int] = []
        made: dict[Buffer, int] = {}
        for item in self.items:
            stage = max((made.get(x.buffer, 0) for x in item.reads()), default=0)
            found.append(stage)
            made[item.out.buffer] = stage + (item.inner > 0)
        return found

    def _scratch(self) -> dict[int, Buffer]:
        """Return a scratch row for each item that a later pass or a reduction reads, and that is not in memory."""
        found: dict[int, Buffer] = {}
        for k, item in enumerate(self.items):
            for x in item.reads():
                p = self.producer.get(x.buffer)
                if p is None:
                    if item.inner and not self._is_plain_row(x, item.kind):
                        found[k] = Buffer(f"{item.out.buffer.name}_row", item.kind, self.width)
                    continue
                if self._is_row(p) or self.items[p].inner:
                    if item.inner:
                        found[k] = Buffer(f"{item.out.buffer.name}_row", item.kind, self.width)
                    continue
                source = self.items[p].out.buffer
                later = self.stage[p] < self.stage[k]
                if item.inner and source.dtype != item.kind:
                    found[k] = Buffer(f"{item.out.buffer.name}_row", item.kind, self.width)
                elif (later or item.inner) and not (source in self.held and self._is_plain_row(x, source.dtype)):
                    found.setdefault(p, Buffer(f"{source.name}_row", source.dtype, self.width))
                if later and item.inner and k in found:
                    found.setdefault(p, Buffer(f"{source.name}_row", source.dtype, self.width))
        return found

    def _is_plain_row(self, x: Access, kind: str) -> bool:
        """Return whether an access is a row whose elements lie one after the other in memory, as a function wants."""
        return x.buffer.dtype == kind and x.strides[len(self.lead) :] == row_major(self.row)

    # -- text ----------------------------------------------------------------------------------------------------------

    def cut(self) -> Count | None:
        """Return how long the outermost loop is, where its turns may be made in any order; None where there is none."""
        if self.lead:
            return self.lead[0]
        return self.row[0] if self.row and max(self.stage) == 0 and not any(i.inner for i in self.items) else None

    def write(self, span: tuple[str, str] | None = None) -> list[str]:
        """Return the lines of the block; `span` are the first turn of the outermost loop and the one after the last."""
        self.span = span
        body: list[str] = []
        for axis, n in enumerate(self.lead):
            body.append("    " * axis + self._turns(f"i{axis}", n, axis == 0))
        depth = "    " * len(self.lead)
        self.rows: list[str] = []
        for stage in range(max(self.stage) + 1):
            self._stage(stage)
        body += [depth + line for line in self.rows]
        body += ["    " * axis + "}" for axis in reversed(range(len(self.lead)))]
        return [*self.lines, *body]

    def _turns(self, name: str, n: Count, outermost: bool) -> str:
        first, end = self.span if outermost and self.span is not None else ("0", c_text(n))
        return f"for (int64_t {name} = {first}; {name} < {end}; {name}++) {{"

    def _row_offset(self, x: Access) -> str:
        parts = [f"i{a}" if s == 1 else f"i{a} * {c_text(s, True)}" for a, s in enumerate(x.strides[: len(self.lead)])
                 if s != 0]  # fmt: skip
        return " + ".join(parts)

    def _pointer(self, x: Access, writes: bool) -> str:
        """Return the name of the pointer to the present row of an access."""
        key = (x.buffer, x.offset, x.strides)
        name = self.pointers.get(key)
        if name is None:
            base = self.pointer(x.buffer, x.offset)
            name = f"p{len(self.pointers)}_{_short(x.buffer.name)}"
            kind = C_TYPES[x.buffer.dtype]
            offset = self._row_offset(x)
            const = "" if writes else "const "
            self.rows.append(f"{const}{kind} *restrict const {name} = {base}{f' + {offset}' if offset else ''};")
            self.pointers[key] = name
        return name

    def _element(self, x: Access, at: list[str]) -> str:
        """Return the element of an access in the loops of a row."""
        parts = [v if s == 1 else f"{v} * {c_text(s, True)}" for v, s in zip(at, x.strides[len(self.lead) :],
                                                                              strict=True) if s != 0]  # fmt: skip
        return " + ".join(parts) or "0"

    def _stage(self, stage: int) -> None:
        for k, item in enumerate(self.items):
            if self.stage[k] == stage and self._is_row(k):
                self._row_item(k, item)
        elements = [k for k in range(len(self.items))
                    if self.stage[k] == stage and not self._is_row(k)
                    and (not self.items[k].inner or k in self.scratch)]  # fmt: skip
        if elements:
            self._loop(elements)
        for k, item in enumerate(self.items):
            if self.stage[k] == stage and item.inner:
                self._reduction(k, item)

    def _row_item(self, k: int, item: Item) -> None:
        operands = []
        for x, cond in zip(item.operands, item.op.kinds, strict=True):
            if isinstance(x, Access):
                if x.buffer in self.producer:
                    text = _register(x.buffer)
                else:
                    text = self._scalar(x)
                text = converted(text, x.buffer.dtype, "bool" if cond == "bool" else item.kind)
            elif isinstance(x, Index):
                text = converted(f"i{x.axis}", "int64", item.kind)
            else:
                text = number(x, item.kind)
            operands.append(text)
        lines, result = statements(item.op, item.params, operands, item.kind, _register(item.out.buffer))
        self.rows += _assigned(lines, result, item, "")
        self._keep_row_value(item)

    def _keep_row_value(self, item: Item) -> None:
        if item.out.buffer in self.held:
            self.rows.append(f"{self._pointer(item.out, True)}[0] = {_stored(_register(item.out.buffer), item)};")

    def _scalar(self, x: Access) -> str:
        """Return an access that is one number for the whole row."""
        name = self.scalars.get(x)
        if name is None:
            pointer = self._pointer(x, False)
            name = self.scalars[x] = f"s{len(self.scalars)}_{_short(x.buffer.name)}"
            self.rows.append(f"const {REGISTER[x.buffer.dtype]} {name} = {pointer}[0];")
        return name

    def _loop(self, elements: list[int]) -> None:
        """Write one pass over the row."""
        at = [f"j{a}" for a in range(len(self.row) - 1)] + ["j"]
        at = at[: len(self.row)] if self.row else []
        inside: list[str] = []
        ready: dict[Any, str] = {}
        for k in elements:
            item = self.items[k]
            kinds = ["number"] if item.inner else item.op.kinds
            operands = []
            for x, cond in zip(item.operands, kinds, strict=True):
                want = "bool" if cond == "bool" else item.kind
                if isinstance(x, Access):
                    operands.append(converted(self._value(k, x, at, ready, inside), x.buffer.dtype, want))
                elif isinstance(x, Index):
                    axis = x.axis - len(self.lead)
                    operands.append(converted(at[axis] if axis >= 0 else f"i{x.axis}", "int64", want))
                else:
                    operands.append(number(x, item.kind))
            if item.inner:
                inside.append(f"{self._scratch_at(k)} = {operands[0]};")
                continue
            lines, result = statements(item.op, item.params, operands, item.kind, _register(item.out.buffer))
            inside += _assigned(lines, result, item, "")
            ready[item.out] = _register(item.out.buffer)
            if item.out.buffer in self.held:
                pointer = self._pointer(item.out, True)
                inside.append(f"{pointer}[{self._element(item.out, at)}] = {_stored(ready[item.out], item)};")
            if k in self.scratch:
                inside.append(f"{self._scratch_at(k)} = {_stored(ready[item.out], item)};")
        near, tests = near_lines(inside, self.near) if self.near and self.row else (inside, [])
        if tests:
            self.fars += 1
            far = f"far{self.fars}_"
            self.rows.append(f"int {far} = 0;")
            self._pass(at, [*near, *(t.replace("far_", far, 1) for t in tests)])
            self.rows.append(f"if ({far})")
        self._pass(at, inside)

    def _pass(self, at: list[str], inside: list[str]) -> None:
        """Write the loops over the row around some lines."""
        for axis, n in enumerate(self.row):
            self.rows.append("    " * axis + self._turns(at[axis], n, axis == 0 and not self.lead))
        self.rows += ["    " * len(self.row) + line for line in inside]
        self.rows += ["    " * axis + "}" for axis in reversed(range(len(self.row)))]

    def _value(self, k: int, x: Access, at: list[str], ready: dict[Any, str], inside: list[str]) -> str:
        """Return an operand within the loop of a row."""
        p = self.producer.get(x.buffer)
        if p is not None and not self.items[p].alone:
            if self._is_row(p) or self.items[p].inner:
                return _register(x.buffer)
            if self.stage[p] == self.stage[k]:
                return _register(x.buffer)
            if x not in ready:
                source = self._scratch_at(p) if p in self.scratch \
                    else f"{self._pointer(x, True)}[{self._element(x, at)}]"  # fmt: skip
                ready[x] = _register(x.buffer)
                inside.append(f"const {REGISTER[x.buffer.dtype]} {ready[x]} = {source};")
            return ready[x]
        if not any(s != 0 for s in x.strides[len(self.lead) :]):
            return self._scalar(x)
        return f"{self._pointer(x, False)}[{self._element(x, at)}]"

    def _scratch_at(self, k: int) -> str:
        buffer = self.scratch[k]
        key = ("scratch", k)
        if key not in self.pointers:
            self.pointers[key] = f"row{k}_{_short(buffer.name)}"
            self.lines.append(f"{C_TYPES[buffer.dtype]} *restrict const {self.pointers[key]} = "
                              f"{self.pointer(buffer, 0)};")  # fmt: skip
        steps = row_major(self.row)
        axes = [f"j{a}" for a in range(len(self.row) - 1)] + ["j"]
        place = " + ".join(v if s == 1 else f"{v} * {c_text(s, True)}" for v, s in zip(axes, steps, strict=True))
        return f"{self.pointers[key]}[{place}]"

    def _reduction(self, k: int, item: Item) -> None:
        x = item.operands[0]
        p = self.producer.get(x.buffer)
        if k in self.scratch:
            self._scratch_at(k)
            row = self.pointers["scratch", k]
        elif p is not None and p in self.scratch:
            row = self.pointers["scratch", p]
        else:
            row = self._pointer(x, p is not None)
        name = _register(item.out.buffer)
        kind = REGISTER[item.out.buffer.dtype]
        how = f"{item.op}_{row_suffix(item.kind)}({row}, {c_text(self.width)})"
        self.rows.append(f"const {kind} {name} = {converted(how, item.kind, item.out.buffer.dtype)};")
        self._keep_row_value(item)


def _assigned(lines: list[str], result: str, item: Item, pad: str) -> list[str]:
    """Return the statements that leave the result of an item in its register."""
    name = _register(item.out.buffer)
    dtype = item.out.buffer.dtype
    found = [pad + line for line in lines]
    narrow = dtype in ("int32", "int16", "int8", "uint8")  # computed in int64, and wraps around
    if result == name and not narrow and (item.op.is_bool if dtype == "bool" else dtype == item.kind):
        return found
    text = result if dtype == "bool" and item.op.is_bool else converted(result, item.kind, dtype)
    if narrow and dtype == item.kind:
        text = f"({C_TYPES[dtype]}){result}"
    if result == name:  # computed in another dtype than it is kept in
        found = [re.sub(rf"\b{name}\b", f"{name}_wide", line) for line in found]
        text = re.sub(rf"\b{name}\b", f"{name}_wide", text)
    return [*found, f"{pad}const {REGISTER[dtype]} {name} = {text};"]


def _stored(name: str, item: Item) -> str:
    return f"(uint8_t){name}" if item.out.buffer.dtype == "bool" else name


def _register(buffer: Buffer) -> str:
    return f"{_short(buffer.name)}"


def _short(name: str) -> str:
    said = re.sub(r"\W", "_", name)
    return said if not said[:1].isdigit() else f"w_{said}"
