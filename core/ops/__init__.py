"""The ops, a family a file; importing this package declares them all."""

from . import elementwise, movement, views, pieces, joining, indexing, gathering, sampling
from . import reduce, extrema, moments, linalg
from . import softmax, loss, norm, distance, margin, embedding, activation, padding, einsum, dropout, attention
