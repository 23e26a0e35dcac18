"""The frames of a thread that is just entering a function: what its loop of evaluation says may be nothing yet."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from core import native

ROOT = Path(__file__).parents[3]
SAMPLES = """
#define PY_SSIZE_T_CLEAN
#include "sampler/frame_chain.h"
#include <string.h>

/* A sample, by a signal or from beside, of a thread whose innermost loop says this of the one around it, or of
   which Python 3.13 says that this is its innermost frame. */
int sampled(int within, unsigned long previous) {
    static char whole[1 << 16];
    PyThreadState *thread = (PyThreadState *)whole;
    frame_at frames[4];
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame loop;
    memset(&loop, 0, sizeof loop);
    loop.previous = (_PyCFrame *)previous;
    thread->cframe = &loop;
#else /* one chain for all loops */
    thread->current_frame = (struct _PyInterpreterFrame *)previous;
    if (!previous) return -1;
#endif
    return frame_chain(thread, within, frames, 4);
}
"""
ASKED = """
import ctypes, sys
found = ctypes.CDLL(sys.argv[1]).sampled
found.argtypes = [ctypes.c_int, ctypes.c_ulong]
print([found(within, at) for within in (0, 1) for at in (0x7FE1CCF385EBC8A0, 2**64 - 4096, 1, 0)])
"""


@pytest.mark.skipif(not hasattr(native.module, "StackSampler"), reason="this Python's frames are not read by C")
def test_a_loop_that_is_not_there_yet_ends_the_walk_and_not_the_process(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "sampled.c").write_text(SAMPLES)
    library = tmp_path / "sampled.so"
    files = [tmp_path / "sampled.c", ROOT / "core/native/sampler/frame_chain.c"]
    folders = [f"-I{ROOT / 'core/native'}", f"-I{sysconfig.get_path('include')}"]
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", *folders, *files, "-o", library], check=True)
    done = subprocess.run([sys.executable, "-c", ASKED, library], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, str([-1] * 8)), done.stderr
