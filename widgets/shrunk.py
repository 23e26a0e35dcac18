"""What variants of a model cost and are worth: plain data in; HTML and text out.

The HTML is one static piece: a style sheet of its own class, no script, no network. Where styles are stripped (an
untrusted notebook) its tables, the code and the plots' sentences remain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import pareto
from .assets import bundle
from .exported import ratio_text
from .figures import number, plain, share, size_text, time_text
from .pareto import Point
from .still import escape

LONGEST = 2000  # characters of a sentence
LAYERS = 12  # of a variant, shown at most
SHARES = ("accuracy", "agreement")
"""Measures that are written as a percentage."""


@dataclass
class Layer:
    """What rounding did to one layer."""

    name: str
    kind: str = ""
    own: float | None = None
    """Relative error of its output on the inputs that it has in the model in float32."""
    whole: float | None = None
    """Relative error of its output in the variant as a whole, with what the layers before it did."""
    line: str = ""
    """Where it is called."""
    source: str = ""
    made: str = ""
    """Where it is made."""
    note: str = ""


@dataclass
class Variant:
    """One variant of the model: its figures, or why it could not be made."""

    name: str
    size_bytes: int | None = None
    one_s: float | None = None
    many_s: float | None = None
    score: float | None = None
    """Of the user's measure."""
    apart: float | None = None
    """Relative difference of its outputs from those in float32."""
    layers: list[Layer] = field(default_factory=list)
    code: str = ""
    note: str = ""
    refusal: str = ""
    remedy: str = ""

    @property
    def worst(self) -> Layer | None:
        """The layer that suffers most by itself."""
        known = [layer for layer in self.layers if layer.own is not None]
        return max(known, key=lambda layer: layer.own or 0.0, default=None)


@dataclass
class Shrunk:
    """The table of one model."""

    title: str
    place: str = ""
    """What the model is, in words."""
    measure: str = ""
    """What `score` is; "" where there are no labels."""
    higher: bool = True
    """Whether more of it is better."""
    variants: list[Variant] = field(default_factory=list)
    many: int = 32
    """The larger batch."""
    chosen: str = ""
    """The variant that is recommended."""
    said: str = ""
    """Why."""
    foot: Sequence[str] = ()
    refusal: str = ""
    remedy: str = ""

    @property
    def state(self) -> str:
        """Failed where there is no variant at all, partial where some could not be made, else done."""
        if self.refusal or not any(v.size_bytes for v in self.variants):
            return "failed"
        return "partial" if any(v.refusal for v in self.variants) else "done"

    @property
    def word(self) -> str:
        """The state in words, with its sign."""
        made = sum(not v.refusal for v in self.variants)
        return {"failed": "✕ No variants", "done": f"✓ {made} variants",
                "partial": f"▲ {made} of {len(self.variants)} variants"}[self.state]  # fmt: skip

    def worth(self, v: Variant) -> float | None:
        """Return what a variant is worth: its score, or how far its outputs are off where there is none."""
        return v.score if self.measure else v.apart


def worth_text(view: Shrunk, value: float | None) -> str:
    """Return a score as it is written.

    >>> worth_text(Shrunk("m", measure="accuracy"), 0.9783), worth_text(Shrunk("m", measure="loss"), 0.12345)
    ('97.8 %', '0.123')
    """
    if value is None:
        return ""
    return share(value) if view.measure in SHARES or not view.measure else number(value)


def figures(view: Shrunk, v: Variant) -> list[tuple[str, str]]:
    """Return the cells of a row, figure and what stands below it: size, latencies, score, difference."""
    first = next((x for x in view.variants if x.size_bytes), v)
    of = "" if not v.size_bytes or not first.size_bytes or v is first else ratio_text(v.size_bytes, first.size_bytes)
    cells = [(size_text(v.size_bytes) if v.size_bytes else "", of)]
    for own, base in ((v.one_s, first.one_s), (v.many_s, first.many_s)):
        cells.append(("" if own is None else time_text(1e3 * own), "" if v is first else ratio_text(own, base)))
    if view.measure:
        cells.append((worth_text(view, v.score), _change(view, v.score, first.score) if v is not first else ""))
    apart = "" if v.apart is None or v is first else share(v.apart) if math.isfinite(v.apart) else "not finite"
    cells.append((apart, ""))
    return cells


def _change(view: Shrunk, value: float | None, base: float | None) -> str:
    """Return how a score differs from float32's: in points where it is a percentage."""
    if value is None or base is None:
        return ""
    if view.measure in SHARES:
        return f"{100 * (value - base):+.1f} pt".replace("-", "−")
    return ("+" if value >= base else "−") + number(abs(value - base))


def heads(view: Shrunk) -> list[str]:
    """Return the heads of the table."""
    measure = [view.measure] if view.measure else []
    return ["variant", "size", "batch 1", f"batch {view.many}", *measure, "outputs differ", "suffers most"]


def _suffers(v: Variant) -> str:
    worst = v.worst
    return "" if worst is None or not worst.own else f"{worst.name} {share(worst.own)}"


# -- text --------------------------------------------------------------------------------------------------------------


def text(view: Shrunk) -> str:
    """Return it as plain text.

    >>> made = Variant("int8", 400, 2e-6, 8e-6, 0.97, 0.01, code="core.quantize_(small, ...)")
    >>> whole = Variant("float32", 1600, 4e-6, 9e-6, 0.98, 0.0)
    >>> none = Variant("int4", refusal="a row has 7 features", remedy="group_size=7")
    >>> print(text(Shrunk("model", measure="accuracy", variants=[whole, made, none], chosen="int8")))
    ▲ 2 of 3 variants · model
      variant  size             batch 1       batch 32       accuracy      outputs differ  suffers most
      float32  1.6 kB           4.00 µs       9.00 µs        98 %
    * int8     400 bytes 0.25×  2.00 µs 0.5×  8.00 µs 0.89×  97 % −1.0 pt  1 %
      int4     ✕ a row has 7 features Remedy: group_size=7
    <BLANKLINE>
    int8:
        core.quantize_(small, ...)
    """
    lines = [" · ".join(x for x in (view.word, view.title, view.place) if x)]
    if view.refusal:
        lines += [view.refusal, *([f"Remedy: {view.remedy}"] if view.remedy else [])]
    if view.said:
        lines.append(view.said)
    rows = {v.name: [v.name, *(" ".join(filter(None, cell)) for cell in figures(view, v)), _suffers(v)]
            for v in view.variants if not v.refusal}  # fmt: skip
    table = [heads(view), *rows.values()] if view.variants else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if widths:
        widths[0] = max(widths[0], *(len(v.name) for v in view.variants))
        lines.append("  " + "  ".join(c.ljust(w) for c, w in zip(table[0], widths, strict=True)))
    for v in view.variants:
        mark = "* " if v.name == view.chosen else "  "
        if v.refusal:
            remedy = f" Remedy: {v.remedy}" if v.remedy else ""
            lines.append(f"{mark}{v.name.ljust(widths[0])}  ✕ {v.refusal}{remedy}")
        else:
            lines.append(mark + "  ".join(c.ljust(w) for c, w in zip(rows[v.name], widths, strict=True)))
    lines += view.foot
    out = [plain(line, LONGEST).rstrip() for line in lines]
    chosen = next((v for v in view.variants if v.name == view.chosen and v.code), None)
    if chosen is not None:
        out += ["", f"{chosen.name}:", *(f"    {line}".rstrip() for line in chosen.code.splitlines())]
    return "\n".join(out)


# -- HTML --------------------------------------------------------------------------------------------------------------


def html(view: Shrunk) -> str:
    """One self-contained piece of HTML, without a script.

    >>> drawn = html(Shrunk("<b>", variants=[Variant("float32", 8, 1e-6, 2e-6), Variant("int8", refusal="<i>")]))
    >>> "&lt;b&gt;" in drawn, "&lt;i&gt;" in drawn, "<script" in drawn, "http" in drawn
    (True, True, False, False)
    """
    parts = [f'<div class="head"><b>{escape(view.word)}</b> {escape(plain(view.title, LONGEST))} '
             f'<span class="end">{escape(plain(view.place, LONGEST))}</span></div>']  # fmt: skip
    if view.refusal:
        parts.append(f'<div class="message">{_prose(view.refusal)}{_remedy(view.remedy)}</div>')
    if view.said:
        parts.append(f'<div class="message">{_prose(view.said)}</div>')
    if view.variants:
        parts.append(_table(view))
        parts.append(_plots(view))
    if view.foot:
        parts.append(f'<div class="foot">{"<br>".join(map(_prose, view.foot))}</div>')
    parts += _choices(view)
    style = f"<style>{bundle('shrunk.css')}</style>"
    return f'<div class="gradlab-box gradlab-shrunk {view.state}">{style}{"".join(parts)}</div>'


def _prose(said: str) -> str:
    return escape(plain(said, LONGEST))


def _remedy(said: str) -> str:
    return f'<div class="remedy">Remedy: {_prose(said)}</div>' if said else ""


def _table(view: Shrunk) -> str:
    names = heads(view)
    last = len(names) - 1
    head = "".join(f'<th scope="col"{"" if k in (0, last) else _NUMBER}>{escape(name)}</th>'
                   for k, name in enumerate(names))  # fmt: skip
    body = []
    for v in view.variants:
        if v.refusal:
            body.append(f'<tr class="bad"><td class="name">{escape(v.name)}</td><td class="said" colspan="{last}">'
                        f"✕ {_prose(v.refusal)}{_remedy(v.remedy)}</td></tr>")  # fmt: skip
            continue
        cells = "".join(f"<td{_NUMBER}>{escape(a)}{f'<small>{escape(b)}</small>' if b else ''}</td>"
                        for a, b in figures(view, v))  # fmt: skip
        note = f"<small>{_prose(v.note)}</small>" if v.note else ""
        worst = v.worst
        suffers = f"{escape(worst.name)} <small>{escape(share(worst.own))}</small>" if worst and worst.own else ""
        chosen = ' class="chosen"' if v.name == view.chosen else ""
        mark = '<span class="mark">recommended</span>' if chosen else ""
        body.append(f'<tr{chosen}><td class="name">{escape(v.name)}{mark}{note}</td>{cells}<td>{suffers}</td></tr>')
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="variants of {_prose(view.title)}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>")  # fmt: skip


_NUMBER = ' class="n"'


def _plots(view: Shrunk) -> str:
    """Worth by size, and by latency, beside one another."""
    measure = view.measure or "difference from float32"
    kind = pareto.shares if view.measure in SHARES or not view.measure else pareto.numbers
    axis = kind(measure, lambda y: _tick(view, y), view.higher if view.measure else False)
    out = []
    for across, cost, said in (("size", "size_bytes", _bytes), ("latency at batch 1", "one_s", _seconds)):
        points = []
        for v in view.variants:
            x, y = getattr(v, cost), view.worth(v)
            if not v.refusal and x is not None and y is not None and math.isfinite(y):
                points.append(Point(v.name, x, y, f"{said(x)} {worth_text(view, y)}"))
        if len(points) > 1:
            drawn = pareto.svg(points, f"{measure} by {across}", across, axis, said)
            label = f"plot of {measure} by {across} of {view.title}"
            box = f'<div class="scroll" tabindex="0" role="region" aria-label="{_prose(label)}">{drawn}</div>'
            out.append(f"<figure>{box}<figcaption>{escape(measure)} by {across}: filled are those that no other one "
                       "beats</figcaption></figure>")  # fmt: skip
    return f'<div class="plots">{"".join(out)}</div>' if out else ""


def _tick(view: Shrunk, y: float) -> str:
    return f"{100 * y:.3g} %" if view.measure in SHARES or not view.measure else f"{y:.3g}"


def _bytes(x: float) -> str:
    return size_text(x) if x else "0"


def _seconds(x: float) -> str:
    return time_text(1e3 * x) if x else "0"


def _choices(view: Shrunk) -> list[str]:
    """For each variant that was made its code and its layers, folded; the recommended one open."""
    found = []
    for v in view.variants:
        if v.refusal or not (v.code or v.layers):
            continue
        opened = " open" if v.name == view.chosen else ""
        label = f"code of {escape(v.name)} of {_prose(view.title)}"
        code = (f'<pre tabindex="0" role="region" aria-label="{label}"><code>{escape(v.code)}</code></pre>'
                if v.code else "")  # fmt: skip
        what = " and ".join(x for x in ("code" if v.code else "", "error by layer" if v.layers else "") if x)
        found.append(
            f"<details{opened}><summary><b>{escape(v.name)}</b> {what}</summary>{code}{_layers(view, v)}</details>"
        )
    return found


def _layers(view: Shrunk, v: Variant) -> str:
    if not v.layers:
        return ""
    order = sorted(v.layers, key=lambda layer: -(layer.own or layer.whole or 0.0))
    most = max((layer.own or 0.0 for layer in order), default=0.0) or 1.0
    body = []
    for layer in order[:LAYERS]:
        bar = (
            "" if not layer.own else f'<span class="bar" style="width:{max(1.0, 60 * layer.own / most):.0f}px"></span>'
        )
        own = share(layer.own)
        where = " · ".join(x for x in (layer.line, layer.made and f"made in {layer.made}") if x)
        kind = ", ".join(x for x in (layer.kind, layer.note) if x)
        body.append(f'<tr><td class="name">{escape(layer.name)}<small>{escape(kind)}</small></td>'
                    f"<td>{escape(own)}{bar}</td><td{_NUMBER}>{escape(share(layer.whole))}</td>"
                    f'<td class="where"><code>{escape(plain(layer.source, 120))}</code><small>{escape(where)}</small>'
                    "</td></tr>")  # fmt: skip
    left = len(order) - LAYERS
    more = f'<div class="foot">{left} layers more, with smaller errors</div>' if left > 0 else ""
    head = (f'<th scope="col">layer</th><th scope="col">its own error</th><th scope="col"{_NUMBER}>with those before it'
            '</th><th scope="col">called at</th>')  # fmt: skip
    label = f"layers of {escape(v.name)} of {_prose(view.title)}"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>{more}'
