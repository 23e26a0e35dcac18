"""Weights by their address, as PyTorch's hub has them: from its folder of files, and never from the network.

A file that lies where PyTorch would have put it (``$TORCH_HOME/hub/checkpoints``, or ``~/.cache/torch/hub``) is read.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any
from urllib.parse import urlparse

from . import serialization
from .base.errors import text

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_chosen: list[str] = []


def _get_torch_home() -> str:
    """Return the folder of PyTorch's files: ``$TORCH_HOME``, or ``torch`` among the caches of this user."""
    caches = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(caches, "torch")))


def get_dir() -> str:
    """Return the folder in which files are looked for.

    >>> import core
    >>> core.hub.get_dir().endswith("hub")
    True
    """
    return _chosen[-1] if _chosen else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder in which files are looked for."""
    _chosen[:] = [os.path.expanduser(os.fspath(d))]


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Raise RuntimeError: nothing here uses the network."""
    raise RuntimeError(text("nothing is fetched from the network here", op="hub.download_url_to_file", came=url,
                            needed=f"the file at {dst}", remedy=f"download it there: curl -o {dst} {url}"))  # fmt: skip


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None,
                             weights_only: bool = True) -> Any:  # fmt: skip
    """Read weights whose file was downloaded before, from the folder where PyTorch keeps it.

    check_hash : whether the file's SHA-256 has to begin with the digits in its name (``resnet18-f37072fd.pth``).

    Raises
    ------
    RuntimeError
        Where the file is not there, since nothing is fetched; where its hash is another one.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        download_url_to_file(url, path)
    named = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
    if named is not None:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if not found.startswith(named.group(1)):
            raise RuntimeError(text(f'invalid hash value (expected "{named.group(1)}", got "{found}")',
                                    op="hub.load_state_dict_from_url", came=path,
                                    remedy="download it anew"))  # fmt: skip
    return serialization.load(path, map_location=map_location)
