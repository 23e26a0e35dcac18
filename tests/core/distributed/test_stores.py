"""Stores, each by the same checks: in a process, in a file, over a network, and under a prefix."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta

import pytest

from core import distributed as dist

from . import jobs

SHORT = timedelta(milliseconds=20)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    made = {
        "hash": lambda: dist.HashStore(),
        "file": lambda: dist.FileStore(str(tmp_path / "store")),
        "tcp": lambda: dist.TCPStore("127.0.0.1", 0, is_master=True),
        "prefix": lambda: dist.PrefixStore("a/b", dist.TCPStore("127.0.0.1", 0, is_master=True)),
    }
    yield made[request.param]()
    dist.TCPStore.end_servers()


def test_values_are_kept(store):
    store.set("a", "1")
    store.set("a b\n=", bytes(range(256)))
    store.set("empty", "")
    assert store.get("a") == b"1"
    assert store.get("a b\n=") == bytes(range(256))
    assert store.get("empty") == b""
    assert store.check(["a", "empty"])
    assert not store.check(["a", "none"])
    assert store.multi_get(["a", "empty"]) == [b"1", b""]
    assert store.delete_key("a")
    assert not store.delete_key("a")
    assert not store.check(["a"])
    assert store.num_keys() == 2


def test_values_are_changed(store):
    assert store.add("n", 2) == 2
    assert store.add("n", -5) == -3
    assert store.get("n") == b"-3"
    store.append("log", "a")
    store.append("log", "bc")
    assert store.get("log") == b"abc"
    assert store.compare_set("new", "", "first") == b"first"
    assert store.compare_set("new", "other", "second") == b"first"
    assert store.compare_set("new", "first", "second") == b"second"


def test_who_waits_gets_what_comes_later(store):
    threading.Timer(0.05, lambda: store.set("late", "x")).start()
    assert store.get("late") == b"x"
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 20ms, keys: \['never'\]"):
        store.wait(["late", "never"], SHORT)


def test_no_count_is_lost_between_threads(store):
    many = [threading.Thread(target=lambda: [store.add("n", 1) for _ in range(50)]) for _ in range(4)]
    for t in many:
        t.start()
    for t in many:
        t.join()
    assert store.add("n", 0) == 200


def test_processes_share_a_store():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    script = ("import core.distributed as d, sys; s = d.TCPStore('127.0.0.1', int(sys.argv[1]));"
              "s.add('n', 4); s.set('from', 'another')")  # fmt: skip
    code, _, errors = jobs.run([sys.executable, "-c", script, str(store.port)])
    assert code == 0, errors
    assert (store.get("from"), store.add("n", 1)) == (b"another", 5)
    dist.TCPStore.end_servers()
    with pytest.raises(dist.DistNetworkError, match="Connection"):
        store.get("n")


def test_a_store_that_nobody_keeps_is_told():
    with pytest.raises(dist.DistNetworkError, match="failed to connect to any network address"):
        dist.TCPStore("127.0.0.1", 9, timeout=SHORT)
