"""What comes before all else of `lab`: whether what it needs is ours, and who warns of what is missing."""

from __future__ import annotations

import os
import runpy
import sys
import warnings

# By its place beside this folder: what the name `core` stands for is just the question.
_beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "core", "base", "shadowing.py")
if os.path.isfile(_beside):
    runpy.run_path(_beside)["check"]("core", "widgets")

if sys.argv[:2] == ["-m", "doctor"]:  # `python -m lab doctor`, which says it with the remedy
    warnings.filterwarnings("ignore", "core runs on NumPy")
