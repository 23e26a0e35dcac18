"""Print how much of PyTorch's documented functions `core` has and has right; ``--write FILE`` makes the docs' table."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from . import compare, table


def space(name: str) -> str:
    return name.rpartition(".")[0]


def summary(report: compare.Report, known: dict[str, str]) -> str:
    """The lists and the figure, as text."""
    lines = []
    for name, said in report.wrong.items():
        lines.append(f"{'known' if name in known else 'WRONG'}  {name}: {known.get(name, said)}")
    if report.missing:
        lines.append("\nmissing:")
    for namespace in table.NAMESPACES:
        names = [n.rpartition(".")[2] for n in report.missing if space(n) == namespace]
        if names:
            lines += textwrap.wrap(f"{namespace} ({len(names)}): {' '.join(names)}", 118, subsequent_indent="  ")
    lines.append(
        f"\n{len(report.right)} right, {len(report.wrong)} wrong, {len(report.missing)} missing of {report.total}: "
        f"{report.percent:.1f} % there and right"
    )
    return "\n".join(lines)


def markdown(report: compare.Report, known: dict[str, str]) -> str:
    """The table of the docs."""
    lines = [
        "# Coverage of PyTorch's functions",
        "",
        "Every function that PyTorch 2.13 documents in these namespaces, compared with `core` on generated inputs:",
        "values, dtypes, shapes, gradients and error classes; regular, empty, 0-d, broadcast, transposed, sliced,",
        "negatively strided, with NaN and infinities, half precision, integers, bools and `out=`. A function is",
        "right when all of its calls agree in all of these. Made by",
        "`python -m tests.parity.catalogue --write lab/docs/coverage.md`.",
        "",
        "| namespace | functions | right | different | missing | there and right |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for namespace in [*table.NAMESPACES, ""]:

        def here(names: list[str], namespace: str = namespace) -> int:
            return sum(not namespace or space(n) == namespace for n in names)

        right, wrong, missing = here(report.right), here(list(report.wrong)), here(report.missing)
        total = right + wrong + missing
        label = f"`{namespace}`" if namespace else "all"
        lines.append(f"| {label} | {total} | {right} | {wrong} | {missing} | {100 * right / max(total, 1):.1f} % |")
    if report.missing:
        lines += ["", "## Missing", ""]
    for namespace in table.NAMESPACES:
        names = [n.rpartition(".")[2] for n in report.missing if space(n) == namespace]
        if names:
            lines.append(f"- `{namespace}`: " + ", ".join(f"`{n}`" for n in names))
    if report.wrong:
        lines += ["", "## Different", ""]
        lines += [f"- `{n}`: {known.get(n, said)}" for n, said in report.wrong.items()]
    lines += ["", "## Left out", ""]
    reasons: dict[str, list[str]] = {}
    for pattern, reason in table.exclusions().items():
        reasons.setdefault(reason, []).append(pattern)
    lines += [f"- {reason}: " + ", ".join(f"`{p}`" for p in patterns) for reason, patterns in reasons.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.catalogue", description=__doc__)
    parser.add_argument("names", nargs="*", help="only the functions whose full name contains one of these")
    parser.add_argument("--write", metavar="FILE", help="write the markdown table there")
    options = parser.parse_args()
    rows = [r for r in table.rows() if not options.names or any(n in r.name for n in options.names)]
    report = compare.examine(rows)
    print(summary(report, table.known()))
    if options.write:
        Path(options.write).parent.mkdir(parents=True, exist_ok=True)
        Path(options.write).write_text(markdown(report, table.known()))


if __name__ == "__main__":
    main()
