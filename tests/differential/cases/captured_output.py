import contextlib
import io
import sys

import torch

buffer = io.StringIO()
with contextlib.redirect_stdout(buffer), contextlib.redirect_stderr(buffer):
    print((torch.ones(3) * 2).sum())
    print("err", file=sys.stderr)
held, sys.stdout = sys.stdout, io.StringIO()
print(torch.ones(2) + 1)
text, sys.stdout = sys.stdout.getvalue(), held
print(repr(text), repr(buffer.getvalue()))
