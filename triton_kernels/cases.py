"""What the compile check compiles: a kernel, the types of its arguments, its constexprs and its space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .tune.space import Config, Space


@dataclass(frozen=True)
class Case:
    """One kernel at one signature. Pointers are written ``"*fp32"``; numbers stand for themselves."""

    name: str
    kernel: Any
    arguments: tuple[Any, ...]
    constexprs: dict[str, Any]
    space: Space
    default: Config = field(default_factory=dict)
    elsewhere: dict[str, Config] = field(default_factory=dict)  # the default on the targets that have another

    def default_on(self, target: str) -> Config:
        """Return the config that a launch of this signature takes by default on `target`."""
        return self.elsewhere.get(target) or self.default_config

    @property
    def default_config(self) -> Config:
        """The config that a launch of this signature takes by default; it must compile and not spill."""
        return self.default or self.space.default
