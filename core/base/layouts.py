"""Layouts: which elements of a tensor are there, and in which order."""

from __future__ import annotations


class layout:
    """How the elements lie: `strided`, all of them; or those that are not zero, as in `sparse_coo`; or
    sequences of several lengths one after the other, `jagged`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return "core." + self.name

    def __reduce__(self) -> str:
        return self.name


strided, jagged = layout("strided"), layout("jagged")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
by_name = {a.name: a for a in (strided, jagged, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)}
