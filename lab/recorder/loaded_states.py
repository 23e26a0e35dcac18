"""What calls of ``load_state_dict`` brought: how many of a module's keys they knew, while a cell is recorded."""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import Any

from core.nn import Module
from core.utils.data import passes

from .cell_trace import Chain
from .user_files import users_frame

FEW = 64  # calls that are noted


@dataclass
class Loaded:
    """One call."""

    place: Chain
    kind: str
    """The module's class."""
    known: int
    """How many keys the module has."""
    given: int
    """How many keys were given."""
    missing: list[str]
    unexpected: list[str]
    strict: bool


class Loads:
    """Hears the calls of the thread that made it, between `start` and `stop`."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self._who = threading.get_ident()
        self._patched: list[tuple[Any, Any]] = []

    def start(self) -> None:
        """Begin to hear them."""
        foreign = sys.modules.get("torch.nn.modules.module")
        for kind in dict.fromkeys((Module, getattr(foreign, "Module", Module))):
            self._patch(kind)

    def stop(self) -> None:
        """Take it back."""
        for kind, own in self._patched:
            if own is None:
                del kind.load_state_dict
            else:
                kind.load_state_dict = own
        self._patched.clear()

    def _patch(self, kind: Any) -> None:
        own = kind.load_state_dict
        noted = self._noted

        def load_state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            found = own(module, *args, **kwargs)
            noted(module, args, kwargs, found)
            return found

        # a frame of the lab would end the chain of the user's frames: this one counts as the library's
        load_state_dict.__code__ = load_state_dict.__code__.replace(co_filename=passes.__file__)
        self._patched.append((kind, vars(kind).get("load_state_dict")))
        kind.load_state_dict = functools.wraps(own)(load_state_dict)

    def _noted(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> None:
        """Note a call; as in the recorder, an error in it is never the user's."""
        recorder = self.recorder
        if recorder.error is not None or threading.get_ident() != self._who or len(recorder.trace.loaded) >= FEW:
            return
        try:
            missing, unexpected = getattr(found, "missing_keys", None), getattr(found, "unexpected_keys", None)
            given = args[0] if args else kwargs.get("state_dict")
            strict = bool(args[1] if len(args) > 1 else kwargs.get("strict", True))
            if not isinstance(missing, list) or not isinstance(unexpected, list) or not isinstance(given, dict):
                return
            known = len(given) - len(unexpected) + len(missing)
            frame = users_frame(sys._getframe(1))
            place = () if frame is None else recorder.fold.chain(recorder.fold.site((frame.f_code, frame.f_lasti)))
            recorder.trace.loaded.append(
                Loaded(place, type(module).__name__, known, len(given), list(missing), list(unexpected), strict)
            )
        except Exception as error:
            recorder.failed(error)


Loads._noted.__code__ = Loads._noted.__code__.replace(co_filename=passes.__file__)
