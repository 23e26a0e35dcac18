"""Configs as text: on a line, as an expression, as a change of the default."""

from __future__ import annotations

from triton_kernels.tune.space import Config


def words(config: Config) -> str:
    """Return a config on one line."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def as_python(config: Config) -> str:
    """Return a config as an expression: a `triton.Config` where it has options of a launch.

    >>> as_python({"BLOCK": 256, "num_warps": 4}), as_python({"KC": 64})
    ("triton.Config({'BLOCK': 256}, num_warps=4)", "{'KC': 64}")
    """
    options = {n: v for n, v in config.items() if n in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    rest = {n: v for n, v in config.items() if n not in options}
    return f"triton.Config({rest!r}, {', '.join(f'{n}={v}' for n, v in options.items())})" if options else repr(config)


def code(default: Config, chosen: Config) -> str:
    """Return the choice as code to copy, with what differs from the default above it.

    >>> print(code({"BLOCK": 128, "num_warps": 4}, {"BLOCK": 256, "num_warps": 4}))
    # default: BLOCK=128 num_warps=4
    # changed: BLOCK 128 -> 256
    triton.Config({'BLOCK': 256}, num_warps=4)
    """
    changed = ", ".join(f"{n} {default[n]} -> {v}" for n, v in chosen.items() if default.get(n) != v) or "nothing"
    return f"# default: {words(default)}\n# changed: {changed}\n{as_python(chosen)}"
