"""A kernel tuned at several shapes: each config's time at each shape as a heat map; plain data in, HTML and text out.

The HTML is one static piece: a style sheet of its own class, no script, no network. Where styles are stripped the table
and its figures remain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .assets import bundle
from .figures import count_text, plain, time_text
from .still import escape

ROWS = 24  # configs that are shown
SLOWEST = 4.0  # from which ratio on a cell is as pale as can be
LONGEST = 2000
STRONGEST = 45  # per cent of the colour


@dataclass
class Study:
    """Several shapes tuned together.

    times : ms by shape and config, None where one failed. chosen : which config is taken at each shape. regret : how
    much longer that takes on average than each shape's own best, as a share; `single` the same for the best single
    config. tree : the choice as code.
    """

    title: str
    device: str
    shapes: list[str]
    configs: list[str]
    times: list[list[float | None]]
    chosen: list[int]
    regret: float = 0.0
    single: float = 0.0
    said: str = ""
    tree: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """Return what came of it, in a line."""
        taken = count_text(len(set(self.chosen)), "config")
        return (f"{taken} for {count_text(len(self.shapes), 'shape')}, {percent(self.regret)} slower than each one's "
                f"own best on average; one config for all: {percent(self.single)}")  # fmt: skip

    def ratio(self, shape: int, config: int) -> float | None:
        """Return a config's time over the best at a shape."""
        found = [t for t in self.times[shape] if t is not None]
        time = self.times[shape][config]
        return None if time is None else time / min(found)

    def order(self) -> list[int]:
        """Return the configs, those that are taken first, in the order of the shapes; then the best on average."""

        def mean(config: int) -> float:
            ratios = [self.ratio(s, config) for s in range(len(self.shapes))]
            return math.inf if None in ratios else sum(math.log(r) for r in ratios if r)

        taken = list(dict.fromkeys(self.chosen))
        return taken + sorted(set(range(len(self.configs))) - set(taken), key=mean)


def percent(x: float) -> str:
    """Return a share in per cent, one place.

    >>> percent(0.0123), percent(0.0)
    ('1.2 %', '0.0 %')
    """
    return f"{100 * x:.1f} %"


def short(configs: list[str]) -> tuple[list[str], str]:
    """Return configs without what all of them have, and that.

    >>> short(["B=1 W=4", "B=2 W=4"])
    (['B=1', 'B=2'], 'W=4')
    """
    words = [c.split(" ") for c in configs]
    same = [w for w in words[0] if all(w in other for other in words)] if len(words) > 1 else []
    return [" ".join(w for w in each if w not in same) for each in words], " ".join(same)


def heat(ratio: float) -> int:
    """Return how strong a cell's colour is, in per cent.

    >>> heat(1.0), heat(2.0), heat(9.0)
    (45, 22, 0)
    """
    return round(STRONGEST * (1.0 - math.log(min(ratio, SLOWEST)) / math.log(SLOWEST)))


# -- HTML and text -----------------------------------------------------------------------------------------------------


def html(view: Study) -> str:
    """Return it as one self-contained piece of HTML, without a script.

    >>> made = html(Study("<b>", "cpu", ["8"], ["B=1", "B=2"], [[1.0, None]], [0]))
    >>> "<b>" in made.replace("<b>Tuned", ""), "<script" in made, "http" in made
    (False, False, False)
    """
    parts = [f'<div class="head"><b>Tuned at {count_text(len(view.shapes), "shape")}</b> {_text(view.title)} '
             f'<span class="quiet">on {_text(view.device)}</span><div class="said">{_text(view.headline)}</div></div>',
             _map(view)]  # fmt: skip
    parts += [f'<p class="quiet">{_text(note)}</p>' for note in view.notes]
    if view.tree:
        parts.append(f"<details open><summary>The choice as code</summary>{code(view.tree, 'the choice as code')}"
                     "</details>")  # fmt: skip
    return boxed("".join(parts))


def boxed(inside: str, kind: str = "") -> str:
    """Return HTML in a box with its style sheet, as both kinds of page have."""
    return f'<div class="gradlab-box gradlab-study {kind}"><style>{bundle("study.css")}</style>{inside}</div>'


def code(text: str, label: str) -> str:
    """Return code that may be wide."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{_text(label)}"><pre>{escape(text)}</pre></div>'


def _text(said: str) -> str:
    return escape(plain(said, LONGEST))


def _map(view: Study) -> str:
    shown, same = short(view.configs)
    order = view.order()
    head = "".join(f'<th scope="col">{_text(s)}</th>' for s in view.shapes)
    rows = []
    for config in order[:ROWS]:
        cells = "".join(_cell(view, shape, config) for shape in range(len(view.shapes)))
        rows.append(f'<tr><th scope="row"><code>{_text(shown[config]) or "default"}</code></th>{cells}</tr>')
    best = "".join(f"<td>{_text(time_text(min(t for t in row if t is not None)))}</td>" for row in view.times)
    foot = f'<tfoot><tr><th scope="row">the shape\'s best time</th>{best}</tr></tfoot>'
    caption = "Time over the shape's own best: the stronger the colour, the faster; a frame is what the tree takes"
    caption += f". All have {_text(same)}" if same else ""
    table = (f'<table class="heat" aria-label="{caption}"><thead><tr><td></td>{head}</tr></thead>'
             f"<tbody>{''.join(rows)}</tbody>{foot}</table>")  # fmt: skip
    left = len(order) - ROWS
    more = f'<p class="quiet">{count_text(left, "config")} more, slower on average</p>' if left > 0 else ""
    label = f"configs by shape of {view.title}"
    scroll = f'<div class="scroll" tabindex="0" role="group" aria-label="{_text(label)}">{table}</div>'
    return f'<p class="quiet">{caption}</p>{scroll}{more}'


def _cell(view: Study, shape: int, config: int) -> str:
    ratio, taken = view.ratio(shape, config), view.chosen[shape] == config
    name = ' class="taken"' if taken else ""
    said = '<span class="apart"> taken</span>' if taken else ""
    if ratio is None:
        return f'<td{name}>✕<span class="apart"> failed</span>{said}</td>'
    style = f"background:color-mix(in srgb,var(--heat) {heat(ratio)}%,transparent)"
    return f'<td{name} style="{style}">{ratio:.2f}{said}</td>'


def text(view: Study) -> str:
    """Return it as plain text.

    >>> print(text(Study("softmax", "cpu", ["8", "64"], ["B=1", "B=2"], [[1.0, 2.0], [3.0, 1.5]], [0, 1])))
    softmax on cpu
    2 configs for 2 shapes, 0.0 % slower than each one's own best on average; one config for all: 0.0 %
      8: B=1 takes 1.00 ms, 1.00 of the best
      64: B=2 takes 1.50 ms, 1.00 of the best
    """
    lines = [f"{view.title} on {view.device}", view.headline]
    for k, (shape, config) in enumerate(zip(view.shapes, view.chosen, strict=True)):
        ratio, time = view.ratio(k, config), view.times[k][config]
        if ratio is not None:
            lines.append(f"  {shape}: {view.configs[config]} takes {time_text(time)}, {ratio:.2f} of the best")
    return "\n".join(line[:LONGEST] for line in lines)
