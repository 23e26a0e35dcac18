"""Pruning that makes models smaller and faster: whole channels, features and heads go, and parameters shrink."""

from __future__ import annotations

from . import rules_layers, rules_views
from .patterns import PatternStructured, pattern_structured
from .plan import Group, ShrinkPlan, plan, shrink
from .schedules import GradualPruning, GradualShrink, cubic_amount
from .scores import Movement
from .tracing import ShrinkError

__all__ = ["GradualPruning", "GradualShrink", "Group", "Movement", "PatternStructured", "ShrinkError", "ShrinkPlan",
           "cubic_amount", "pattern_structured", "plan", "shrink"]  # fmt: skip
