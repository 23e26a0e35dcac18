"""The extension module by itself: before core hands it its types, imported twice, and in a second interpreter."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from core import native

pytestmark = pytest.mark.skipif(not native.available, reason="the module is what is tested")
LOAD = """
import importlib.machinery, importlib.util, sys
def load(name="core.native._native"):
    loader = importlib.machinery.ExtensionFileLoader(name, PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, PATH, loader=loader))
    loader.exec_module(module)
    return module
"""


def run(text: str) -> str:
    """Run Python in a process of its own, in which `load()` gives the module without core; return what it prints."""
    program = f"PATH = {native.module.__file__!r}\n{LOAD}\n{textwrap.dedent(text)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-2000:]}"
    return done.stdout


def test_an_op_before_connect_is_a_runtime_error() -> None:
    said = run("""
        m = load()
        import types
        named = types.SimpleNamespace(name="of a test")
        op = m.ElementwiseCall(named, {}, lambda mask: b"", True, False, ("a",), (), 0, 0)
        structured = m.Structured(object(), "sum", print, (), (), None, None, False, True, False)
        tensor, node = m.TensorBase(), m.NodeBase()
        calls = [lambda: op(tensor), lambda: structured(tensor), lambda: m.step(node, None, None),
                 lambda: m.step_back(node, None, None), lambda: m.walk([], None, None, None, None, None),
                 lambda: m.set_operator("getitem", print), m.set_setitem]
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                assert "import core first" in str(error), error
            else:
                raise AssertionError("no error")
        print(len(calls))
    """)
    assert said == "7\n"


def test_nothing_called_before_connect_crashes() -> None:
    said = run("""
        import contextlib, io
        import numpy as np
        m = load()
        a, t, n = np.ones((2, 3), "f"), m.TensorBase(), m.NodeBase()
        values = [t, n, a, 1, 2.0, "x", None, (1,), [t], {}, print]
        count = 0
        for name, thing in sorted(vars(m).items()):
            if not callable(thing) or name.startswith("connect"):
                continue
            for first in values:
                for second in values:
                    for args in ((), (first,), (first, second), (first, second, None), (second,) * 5):
                        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                            thing(*args)
                        count += 1
        for a in (t, n):
            for ask in (repr, str, bool, len, iter, lambda x: x + x, lambda x: x == x, lambda x: x[0], lambda x: -x):
                with contextlib.suppress(Exception):
                    ask(a)
        print(count > 10000)
    """)
    assert said == "True\n"


def test_a_second_module_of_the_process_shares_the_state() -> None:
    said = run("""
        import core
        first, second = core.native.module, load()
        assert first is not second and first.TensorBase is second.TensorBase
        assert first.maps.keys() == second.maps.keys() and first.entries.keys() == second.entries.keys()
        x = core.randn(3, requires_grad=True)
        (x * x).sum().backward()
        assert core.allclose(x.grad, 2 * x)
        assert second.newest() == first.newest() > 0
        del second, sys.modules["core.native._native"]
        assert (x + 1).tolist() == (x.detach() + 1).tolist()
        print("ok")
    """)
    assert said == "ok\n"


def test_a_sub_interpreter_is_refused_with_an_import_error() -> None:
    said = run(
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        m = load()
        text = f'''PATH = {PATH!r}
        ''' + LOAD_TEXT + '''
        try:
            load()
        except ImportError as error:
            print("refused:", error)
        '''
        import textwrap
        inner = interpreters.create()
        failed = interpreters.run_string(inner, text.replace("\\n        ", "\\n"))
        assert not failed, failed
        interpreters.destroy(inner)
        print(len(m.maps) > 10)
    """.replace("LOAD_TEXT", repr(LOAD))
    )
    assert said.startswith("refused: core.native._native: ")
    assert "main interpreter" in said
    assert said.endswith("True\n")
