# ways: cell
import torch
from IPython.display import HTML, Markdown, clear_output, display

w = torch.ones(2, requires_grad=True)
display(HTML("<b>mine</b>"), Markdown("*too*"))
handle = display("one", display_id=True)
handle.update("two")
clear_output()
w * 2
# %%
w.sum();
# %%
print("to stdout")
(w * 3).sum().item()
# %%
%time y = w * 2
# %%
import sys

print("to stderr", file=sys.stderr)
_ = 5
None
# %%
!echo a shell speaks
names = %who_ls int
names
# %%
class Shown:
    def _repr_html_(self):
        return f"<i>{(w * 2).sum().item()}</i>"

    def __repr__(self):
        return "shown"


Shown()
# %%
w.requires_grad_(False)[0]
# %%
def f():
    global w
    w = w + 1
    return w


f()
f()
print(_, __)
# %%
from IPython import get_ipython

inner = get_ipython().run_cell("(w * 2).sum()")
inner.result
