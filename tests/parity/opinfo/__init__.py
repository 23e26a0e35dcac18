"""PyTorch's own samples of its functions (torch.testing, `op_db`) run under both libraries.

`op_db` of PyTorch 2.13 has 702 OpInfos, each a function or a variant of one (`norm`, `norm.nuc`), of 636 names. Those
of functions that PyTorch does not document (`not_counted.txt`, each with its reason) are left out: 638 remain.
What is compared of them stands in `checks.py`; what differs, with its reason, in `exceptions.txt` and `errors.txt`.
A line there whose difference has gone fails the tests.
"""
