"""The pool: its size, several Python threads at once, and fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import ModuleType

import numpy as np
import pytest


def test_the_number_of_threads(kernels: ModuleType) -> None:
    kernels.set_num_threads(3)
    assert kernels.get_num_threads() == 3
    with pytest.raises(RuntimeError, match="positive"):
        kernels.set_num_threads(0)
    with pytest.raises(TypeError):
        kernels.set_num_threads("two")


def test_the_environment_sets_it() -> None:
    code = "from core import native; print(native.module.get_num_threads())"
    env = {**os.environ, "GRADLAB_NUM_THREADS": "5"}
    assert (
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        == "5\n"
    )


def test_many_small_jobs(kernels: ModuleType, rng: np.random.Generator) -> None:
    x = rng.standard_normal((400, 500)).astype("f")
    kernels.set_num_threads(1)
    expected = kernels.maps["tanh", "f"](x).tobytes()
    kernels.set_num_threads(4)
    for _ in range(500):
        assert kernels.maps["tanh", "f"](x).tobytes() == expected


@pytest.mark.parametrize(("shape", "repeat"), [((100003,), None), ((1003, 333), "columns"), ((40001, 7), "one")])
def test_no_thread_ends_where_vectors_do_not(
    shape: tuple[int, ...], repeat: str | None, kernels: ModuleType, rng: np.random.Generator
) -> None:
    """A product that may join either of two sums joins one in vectors and the other in a loop's last items."""
    g, x = rng.standard_normal((2, *shape)).astype("f")
    if repeat:
        g = np.asfortranarray(g) if repeat == "columns" else g[:, :1]
    for name, inputs in (("gelu_erf_backward", (g, x)), ("binary_entropy_logits_pos", (g, x, x))):
        kernels.set_num_threads(1)
        expected = kernels.maps[name, "f"](*inputs).tobytes()
        for threads in (2, 3, 5):
            kernels.set_num_threads(threads)
            assert kernels.maps[name, "f"](*inputs).tobytes() == expected, (name, threads)


def test_python_threads_share_the_pool(kernels: ModuleType, rng: np.random.Generator) -> None:
    kernels.set_num_threads(3)
    x = rng.standard_normal((600, 400)).astype("f")
    expected = kernels.maps["exp", "f"](x).tobytes()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(100):
            if kernels.maps["exp", "f"](x).tobytes() != expected:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_forked_child_works() -> None:
    code = """
import os, numpy as np, warnings
warnings.simplefilter("ignore")
from core import native
k = native.module
k.set_num_threads(2)
x = np.ones((2000, 1000), "f")
before = k.maps["add", "f"](x, x)
child = os.fork()
if child == 0:
    ok = bool((k.maps["add", "f"](x, x) == 2).all()) and k.entries["sum"](x, (0, 1), False) == 2e6
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert (k.maps["add", "f"](x, x) == 2).all()
print("both work")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "both work\n"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors of Linux"
)
def test_the_workers_leave_the_callers_processor_to_it() -> None:
    code = """
import os, threading
import numpy as np
from core import native
k = native.module
k.set_num_threads(2)
x = np.ones((2000, 1000), "f")
known, all_of_them = set(os.listdir("/proc/self/task")), os.sched_getaffinity(0)
for here in sorted(all_of_them)[:2]:
    os.sched_setaffinity(0, {here})
    os.sched_setaffinity(0, all_of_them)  # still there, and free to go
    k.maps["add", "f"](x, x)
    (worker,) = {int(thread) for thread in os.listdir("/proc/self/task")} - {int(thread) for thread in known}
    allowed = os.sched_getaffinity(worker)
    assert len(allowed) == len(all_of_them) - 1 and allowed < all_of_them, allowed
    assert os.sched_getaffinity(0) == all_of_them
print("left")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "left\n", done.stderr
