"""lab/docs/launcher.md: its program runs, fails and goes on as the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.core.distributed import jobs

PAGE = Path(__file__).parents[3] / "lab" / "docs" / "launcher.md"
pytestmark = jobs.needs_mpi


def alike(text: str) -> str:
    """A text on one line, without what differs from run to run: times, the host, what the others did."""
    text = re.sub(r"on [\w.-]+ failed", "on HOST failed", " ".join(text.split()))
    return re.sub(r"(Waiting for it|Meanwhile): .*?All ranks were ended, \d+\.\d s", "All ranks were ended", text)


def test_the_page_says_what_happens(tmp_path):
    program, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    shown = re.findall(r"```console\n\$ python -m core\.distributed\.run (.*?)\n(.*?)```", PAGE.read_text(), re.S)
    assert len(shown) == 2
    (tmp_path / "train.py").write_text(program)
    for options, said in shown:
        for old in tmp_path.glob("newest.pt"):
            old.unlink()
        start = f"cd {tmp_path} && {sys.executable} -m core.distributed.run {options}"
        code, out, errors = jobs.run(["sh", "-c", start])
        assert code == (0 if "--restarts" in options else 1)
        told = errors[errors.index("core.distributed.run:") :]
        printed = "\n".join(sorted(out.splitlines()))
        assert alike(told + printed) == alike(said)
