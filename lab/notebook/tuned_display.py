"""What a cell shows that ends with the value of `tune.dispatch`: its times as a heat map."""

from __future__ import annotations

from typing import Any

_NAME = "triton_kernels.tune.dispatching", "Dispatch"


def register(shell: Any) -> None:
    """Let a shell's cells show it; nothing is imported before one does."""
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name(*_NAME, _html)
    formatters["text/plain"].for_type_by_name(*_NAME, lambda made, printer, cycle: printer.text(str(made)))


def unregister(shell: Any) -> None:
    """End it."""
    for form in ("text/html", "text/plain"):
        shell.display_formatter.formatters[form].pop(".".join(_NAME), None)


def _html(made: Any) -> str:
    from ..tuning import shown

    return shown.html(made)
