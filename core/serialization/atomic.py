"""Files that are replaced whole or not at all, whenever the writer is killed."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any, BinaryIO

from ..base.errors import text

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NAME_BYTES = 255  # what Linux's file systems allow


def _stem(name: str) -> str:
    """Return what the temporary files of `name` begin with; a name near the limit is shortened to its digest."""
    if len(os.fsencode(name)) + 17 > _NAME_BYTES:
        return "." + blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return "." + name


def _lock(fd: int, wait: bool) -> bool:
    """Return whether this process now holds the file's lock, which the kernel takes back when the process dies."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another writer has it, or the file system has no locks
        return False
    return True


def _same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _create(folder: str, name: str) -> tuple[int, str]:
    """Return a new file beside `name`, locked for as long as its writer lives."""
    while True:
        path = os.path.join(folder, f"{_stem(name)}.{os.urandom(4).hex()}.saving")
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)  # less the umask
        except FileExistsError:
            continue
        except OSError as error:
            target = os.path.join(folder, name)
            phrase = text(os.strerror(error.errno or 0), op="save", came=target,
                          needed="a folder where a new file can be made beside the old one")  # fmt: skip
            raise OSError(error.errno, phrase) from None
        _lock(fd, wait=True)
        if _same_file(fd, path):
            return fd, path
        os.close(fd)  # a sweep took it for a dead writer's before it was locked


def sweep(folder: str, name: str) -> list[str]:
    """Remove what killed writers of `name` left behind; gives the names removed. What a living one writes stays."""
    pattern = re.compile(re.escape(_stem(name)) + r"\.[0-9a-f]{8}\.saving")
    removed = []
    for found in os.listdir(folder):
        if pattern.fullmatch(found):
            path = os.path.join(folder, found)
            with suppress(OSError):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    if _lock(fd, wait=False) and _same_file(fd, path):
                        os.unlink(path)
                        removed.append(found)
                finally:
                    os.close(fd)
    return removed


def _sync_folder(folder: str) -> None:
    """Let the new name itself survive a power failure, where the file system can."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _explained(error: OSError, target: str, written: int) -> OSError:
    """Return a full disk said with what was tried; other errors as they are."""
    if error.errno not in _FULL:
        return error
    free = "unknown"
    with suppress(OSError):
        space = os.statvfs(os.path.dirname(target))
        free = f"{space.f_bavail * space.f_frsize:,} bytes"
    had = "the old file is as it was" if os.path.exists(target) else "no file was left"
    phrase = text(
        f"{os.strerror(error.errno or 0)}: {had}",
        op="save",
        came=f"{target}, after {written:,} bytes; free now: {free}",
        remedy="free some space, or save to another disk",
    )
    return OSError(error.errno, phrase)


def _keep_mode(fd: int, old: os.stat_result) -> None:
    """The mode and owner of the file that is replaced, as writing into it would have kept them."""
    with suppress(OSError):
        mine = os.fstat(fd)
        if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(fd, old.st_uid, old.st_gid)
    with suppress(OSError):
        os.fchmod(fd, stat.S_IMODE(old.st_mode))


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends, in one step, and leaves no trace of itself
    when the block fails. What a pipe or a device gets is written straight away.

    *Raises*: RuntimeError where the folder does not exist; OSError with the remedy where the disk is full; others as
    `open` raises them.
    """
    target = os.path.realpath(os.fsdecode(path))  # a symbolic link stays one: its file is replaced
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(text(f"Parent directory {folder} does not exist.", op="save", came=str(path),
                                remedy=f"os.makedirs({folder!r}, exist_ok=True)"))  # fmt: skip
    old = os.stat(target) if os.path.exists(target) else None
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(target, "wb") as f:
            yield f
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    sweep(folder, name)
    fd, temporary = _create(folder, name)
    written = 0
    try:
        if old is not None:
            _keep_mode(fd, old)
        try:
            with open(fd, "wb", closefd=False) as f:
                yield f
        finally:
            written = os.fstat(fd).st_size
        os.fsync(fd)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            explained = _explained(error, target, written)
            if explained is not error:
                raise explained from error
        raise
    finally:
        os.close(fd)
    _sync_folder(folder)
