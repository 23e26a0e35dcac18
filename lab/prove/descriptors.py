"""What a forked process shares with its parent, made its own: open files, and memory that both could write to."""

from __future__ import annotations

import ctypes
import mmap
import os
import stat

MOST_BYTES = 1 << 30  # of files and shared memory that are copied for one trial
_MAP_FIXED = 0x10
_SAFE_DEVICES = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)}  # null, zero, full, random, urandom: nothing to be changed

libc = ctypes.CDLL(None, use_errno=True)
if hasattr(libc, "mmap"):
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]


class CannotFence(Exception):
    """A worker cannot be kept from changing what is not its own; the message says what is in the way."""


def own_descriptors(keep: set[int], folder: str = "") -> None:
    """Put something of this process alone behind every inherited descriptor but those in `keep`.

    A file that is open for reading is opened anew at the same offset (the offset is shared by a fork), one that is open
    for writing becomes a copy in `folder`, without a folder it is opened anew too; sockets, pipes and terminals become
    /dev/null.

    *Raises*: CannotFence where there is too much to copy.
    """
    null, copied = os.open(os.devnull, os.O_RDWR), 0
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in keep or fd == null:
            continue
        try:
            status = os.fstat(fd)
        except OSError:  # the listing's own
            continue
        if stat.S_ISREG(status.st_mode):
            with open(f"/proc/self/fdinfo/{fd}") as lines:
                flags = int(next(line.split()[1] for line in lines if line.startswith("flags")), 8)
            if not folder:
                _open_anew(fd, flags, null)
            elif flags & (os.O_WRONLY | os.O_RDWR):
                copied += status.st_size
                if copied > MOST_BYTES:
                    raise CannotFence("the files that are open for writing are too large to copy")
                _copy(fd, flags, status.st_size, os.path.join(folder, f"open-{fd}"))
            else:
                _swap(fd, os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))
        elif not (stat.S_ISCHR(status.st_mode) and _device(status.st_rdev) in _SAFE_DEVICES):
            os.dup2(null, fd)
    os.close(null)


def own_shared_memory() -> None:
    """Replace every writable shared mapping (np.memmap, tensors of worker processes) by a private copy in its place.

    *Raises*: CannotFence where there is too much of it, or where it cannot be replaced.
    """
    total = 0
    with open("/proc/self/maps") as file:
        lines = file.readlines()
    for line in lines:
        fields = line.split(maxsplit=5)
        if fields[1][1] != "w" or fields[1][3] != "s":
            continue
        if len(fields) > 5 and fields[5].startswith("/dev/nvidia"):
            raise CannotFence("a GPU's memory is mapped")
        begin, end = (int(number, 16) for number in fields[0].split("-"))
        total += end - begin
        if total > MOST_BYTES:
            raise CannotFence("the shared memory is too large to copy")
        _replace(begin, end - begin, readable=fields[1][0] == "r")


def _replace(begin: int, size: int, readable: bool) -> None:
    kept = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(kept))
    if readable:
        ctypes.memmove(address, begin, size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    if libc.mmap(begin, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != begin:
        raise CannotFence("shared memory cannot be replaced")
    ctypes.memmove(begin, address, size)


def _device(number: int) -> tuple[int, int]:
    return os.major(number), os.minor(number)


def _swap(fd: int, new: int) -> None:
    """Let `new` stand for `fd`, at the same offset."""
    os.lseek(new, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(new, fd)
    os.close(new)


def _open_anew(fd: int, flags: int, null: int) -> None:
    """Share a file with the parent, and no longer its offset and its locks; /dev/null where it may not be opened."""
    try:
        _swap(fd, os.open(f"/proc/self/fd/{fd}", flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND)))
    except OSError:
        os.dup2(null, fd)


def _copy(fd: int, flags: int, size: int, path: str) -> None:
    new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | flags & os.O_APPEND, 0o600)
    source = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    offset = 0
    while offset < size and (sent := os.sendfile(new, source, offset, size - offset)):
        offset += sent
    os.close(source)
    _swap(fd, new)
