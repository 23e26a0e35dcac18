"""The ops, a family a file; importing this package declares them all."""

from . import elementwise, movement, views, pieces, joining, indexing, gathering, sampling, reduce, extrema, moments, linalg  # noqa: F401, I001 - the order of declaration
from . import softmax, loss, norm, distance, margin, embedding, activation, padding, einsum, dropout, attention  # noqa: F401, I001
