"""Messages between processes, and the memory they share."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from core.utils.data import segments
from core.utils.data.channel import Channel, TooManyFiles
from core.utils.data.packing import parts
from core.utils.data.segments import Inbox, Mapping, Outbox


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    """Two ends; neither blocks."""
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)
    ends = Channel(a), Channel(b)
    before = len(os.listdir("/proc/self/fd"))
    yield ends
    assert len(os.listdir("/proc/self/fd")) <= before
    for end in ends:
        end.close()


def test_messages_keep_their_bounds(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    assert b.receive() is None
    a.send(b"one")
    a.send(b"", [b"x" * 100, b"", np.arange(3)])
    first, second = b.receive(), b.receive()
    assert first is not None
    assert second is not None
    assert (bytes(first.body), first.data.size, first.files) == (b"one", 0, [])
    x, empty, numbers = parts(second.data, [100, 0, 24])
    assert (bytes(x), empty.size, numbers.view(np.int64).tolist()) == (b"x" * 100, 0, [0, 1, 2])
    assert b.receive() is None


@pytest.mark.by_turns
def test_what_does_not_fit_is_sent_later_with_its_files(pair: tuple[Channel, Channel]) -> None:
    a, b = pair
    big = [np.full(300_000, i, np.uint8) for i in range(5)]
    for i in range(3):
        file = segments.create("test")
        os.write(file, bytes([i]))
        a.send(pickle.dumps(i), big * 200, [file])
        os.close(file)  # the message has its own
    assert a.waiting
    got = []
    while len(got) < 3:
        a.flush()
        message = b.receive()
        if message is not None:
            (file,) = message.files
            got.append((pickle.loads(message.body), os.pread(file, 1, 0)[0]))
            os.close(file)
            assert all((part == i % 5).all() for i, part in enumerate(parts(message.data, [300_000] * 1000)))
    assert got == [(0, 0), (1, 1), (2, 2)]
    assert not a.waiting


def test_an_end_and_too_many_files_are_told() -> None:
    import resource

    a, b = (Channel(s) for s in socket.socketpair())
    file = segments.create("test")
    a.send(b"", files=[file])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(TooManyFiles):
            b.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    os.close(file)
    a.close()
    with pytest.raises(EOFError):
        b.receive()
    with pytest.raises(BrokenPipeError):
        b.send(b"x")
    b.close()


def test_segments_are_filled_again_when_nothing_lies_in_them() -> None:
    out, inbox = Outbox(), Inbox(keep=2)

    def sent(value: int, size: int = 50_000) -> tuple[int, np.ndarray, bool]:
        number, room, file = out.put([np.full(size, value, np.uint8)], size)
        data = inbox.take(number, room, file)
        if file is not None:
            dup = os.dup(file)  # over a socket the parent gets a descriptor of its own, and closes it
            os.close(dup)
        return number, data[:size], file is not None

    kept = [sent(i) for i in range(4)]
    assert [n for n, _, _ in kept] == [0, 1, 2, 3]
    assert inbox.released() == ([], [])
    view = kept[0][1][10:20]
    del kept
    free, dropped = inbox.released()
    assert len(free) == 2
    assert len(dropped) == 1
    assert 0 not in free + dropped  # a view holds it
    out.released(free, dropped)
    number, data, new = sent(9)
    assert (number in free, new) == (True, False)
    assert (data == 9).all()
    assert (view == 0).all()
    other = sent(5, 60_000)  # the free one is too small, and is replaced
    assert other[2]
    assert (other[1] == 5).all()
    inbox.forked()
    del data, other
    free, dropped = inbox.released()
    assert (free, len(dropped)) == ([], 2)  # a child may look into them
    inbox.close()
    del view
    out.released((), list(out._files))


def test_memory_that_runs_out_is_an_error_and_no_signal() -> None:
    import resource

    file = segments.create("test")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            segments.fill(file, [bytes(100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    segments.fill(file, [bytes(10)] * 2000)
    assert os.fstat(file).st_size == 2000 * 64
    private = np.asarray(Mapping(file, 64, private=True))
    private[0] = 1
    assert np.asarray(Mapping(file, 64))[0] == 0
    os.close(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Mapping(file, 64)
