# packages: torch
import sys

import torch

w = torch.ones(4, requires_grad=True)
with torch.autograd.profiler.profile() as prof:
    (w * w).sum().backward()
print({"aten::mul", "aten::sum"} <= {e.key for e in prof.key_averages()})
calls = []
sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)


def mine():
    return (w * 2).sum()


mine()
sys.setprofile(None)
print("mine" in calls)
del calls, prof  # a profiler sees what the recorder does: that is what it is for
# %%
lines = []


def tracer(frame, event, arg):
    if frame.f_code.co_name == "traced" and event == "line":
        lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
    return tracer


def traced(t):
    a = t + 1
    b = a * 2
    return b.sum()


sys.settrace(tracer)
traced(w)
sys.settrace(None)
print(lines)
del lines
