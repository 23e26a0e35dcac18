"""What a shell displays, kept as text and hashes."""

from __future__ import annotations

from typing import Any

from .describe import digest, plain


def displays(shell: Any) -> list[Any]:
    """The list to which all that the shell displays is added from now on."""
    shown: list[Any] = []

    def publish(data: Any, metadata: Any = None, *args: Any, **kwargs: Any) -> None:
        shown.append({kind: _brief(content) for kind, content in data.items()})

    def clear(wait: bool = False) -> None:
        shown.append("cleared")

    shell.display_pub.publish = publish
    shell.display_pub.clear_output = clear
    return shown


def _brief(content: Any) -> str:
    text = content if isinstance(content, str) else repr(content)
    return plain(text) if len(text) < 2000 else digest(text.encode())
