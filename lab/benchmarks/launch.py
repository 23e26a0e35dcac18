"""`python -m lab bench launch`: what a launch and an op on `cuda` cost the host, in µs.

Without a GPU they are told to the fake libcuda of this package's tests, with a stand-in for CuPy in CuPy's place: the
driver's own time is then not in the figures, and the time to allocate a result is the stand-in's, shown by itself.
Each figure is the least of many short bursts, as other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.backends.cuda import shared

LIMITS = {"planned launch": 1.5, "a + b": 6.0, "asking for a config again": 1.0}  # µs

_MEASURE = """
import json, sys, timeit
import numpy as np
import cupy, core, triton
from triton_kernels import runtime
from triton_kernels.elementwise import build

def us(work, number=50, repeat=2000):
    work()
    found = sorted(timeit.repeat(work, number=number, repeat=repeat))
    return [found[0] / number * 1e6, found[len(found) // 2] / number * 1e6]

core.cuda.init()
a, b = core.ones(64, 128, device="cuda"), core.ones(64, 128, device="cuda")
w = core.ones(64, 128, device="cuda", requires_grad=True)
x, y, out = a._a, b._a, cupy.empty((64, 128), np.float32)
kernel = build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")
kernel((x, y), (0.1,), out)
launch = kernel.launch_of((x, y), out)
planner, runtime.planner = runtime.planner, None
plain = runtime.Launch(launch.kernel, launch.grid, launch.ints, launch.constexprs, num_warps=8)
plain((x, y, out), (0.1,))
runtime.planner = planner
dtype = np.dtype(np.float32)
figures = {
    "planned launch": us(lambda: launch((x, y, out), (0.1,))),
    "the same by Triton's launcher": us(lambda: plain((x, y, out), (0.1,))),
    "kernel[grid](...)": us(lambda: launch.kernel[launch.grid](
        runtime.Pointer(x), runtime.Pointer(y), runtime.Pointer(out), 0.1, *launch.ints, **launch.constexprs,
        num_warps=8), repeat=200),
    "allocating a result": us(lambda: cupy.ndarray((64, 128), dtype)),
    "a + b": us(lambda: a + b),
    "a * 2.0": us(lambda: a * 2.0),
    "a + w, with its node": us(lambda: a + w),
    "a.tanh()": us(lambda: a.tanh()),
    "a.sum()": us(lambda: a.sum(), repeat=400),
}
import tempfile, os
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp()
from triton_kernels import softmax
from triton_kernels.tune import lookup
from triton_kernels.tune.sources import source_of
from triton_kernels.tune.store import Store
config = {"BLOCK": 512, "ROWS": 1, "num_warps": 4}
key = {"kernel": "softmax_kernel", "source": source_of(softmax.softmax_kernel), "device": runtime.device_name(),
       "shape": [64, 512], "dtype": "float32", "mode": "cuda"}
with Store() as kept:
    for other in range(100):
        kept.win({**key, "shape": [1 << other % 10, 1 << other // 10]}, kept.begin(key, {}, "random"),
                 {"config": config, "ratio": 0.5, "low": 0.4, "high": 0.6})
def ask(shape):
    return runtime.tuned(softmax.softmax_kernel, softmax.SPACE, shape, dtype)
def first(shape):
    def again():
        runtime._chosen.clear()
        ask(shape)
    return again
assert ask((64, 512)) == config
figures |= {
    "asking for a config again": us(lambda: ask((64, 512))),
    "the first time, exactly this shape": us(first((64, 512)), number=5, repeat=200),
    "the first time, of the same bucket": us(first((64, 500)), number=5, repeat=200),
    "the first time, the nearest": us(first((64, 1500)), number=5, repeat=200),
    "lookup.best again": us(lambda: lookup.best("softmax_kernel", (64, 512), "float32", key["device"], key["source"])),
}
print(json.dumps({"figures": figures, "triton": triton.__version__, "cupy": cupy.__version__,
                  "python": sys.version.split()[0], "device": core.cuda.get_device_name(),
                  "torch imported": "torch" in sys.modules}))
"""


def measure() -> dict[str, Any]:
    """Return the figures, each as (least, median), on a GPU if there is one; RuntimeError with the reason if they
    fail."""
    there = shared.availability()[0] and importlib.util.find_spec("cupy") is not None
    environment = None
    if not there:
        machine = Path(__file__).parents[2] / "tests" / "fake_gpu.py"
        if not machine.exists():
            raise RuntimeError("neither a GPU nor the source tree, whose tests hold the fake libcuda, is here")
        spec = importlib.util.spec_from_file_location("fake_gpu", machine)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        environment = module.environment(FAKE_PARAMETERS=4)
    done = subprocess.run([sys.executable, "-c", _MEASURE], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(argv: list[str]) -> int:
    """Run the command line; 0 where the figures are within their limits."""
    parser = argparse.ArgumentParser(prog="python -m lab bench launch", description=__doc__)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    try:
        found = measure()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{found['device']}; triton {found['triton']}, CuPy {found['cupy']}, Python {found['python']}")
    print(f"{'':34} {'least':>8} {'median':>8}   µs")
    over = False
    for name, (least, median) in found["figures"].items():
        limit = LIMITS.get(name)
        over |= limit is not None and least > limit
        print(f"{name:34} {least:8.2f} {median:8.2f}" + (f"   at most {limit}" if limit is not None else ""))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return int(over)
