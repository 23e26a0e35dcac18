"""The ops, a family a file; importing this package declares them all."""

from . import elementwise, where, clamping, movement, views, pieces, joining, indexing, gathering, sampling
from . import reduce, extrema, moments, linalg
from . import ordering, counting, comparing, closeness, cumulative, bits, placing, methods, special, polynomial, listing
from . import interchange
from . import softmax, loss, norm, distance, margin, embedding, activation, padding, einsum, dropout, attention
from . import conv, pool, fractional, resample, sampling_grid, fold, multihead
from . import complex  # says which of the ops above take complex numbers
from . import multilabel, ctc, rarer, segments
from . import recurrent, recurrence, linear_loss, quantised
from . import reshaped  # in-place forms of the views
from . import solving, decomposition, spectral, determinant, lu, ldl, matrix, products, lowrank
from . import fourier, spectrogram
from . import sparse_names  # methods that import core.sparse when they are called
from . import legacy_types  # what `Tensor(...)` makes
from . import outs  # last: it widens functions of the files above
from . import inplace_names  # after all that has an in-place form
from . import numpy_protocol  # by its name here: asked for from outside it would be a namespace of that name
from .namespaces import Namespace, load_library
from ..base.absent import ASKED_OF_ANY as _ASKED_OF_ANY

loaded_libraries: set[str] = set()


def __getattr__(name: str) -> Namespace:
    if name.startswith(_ASKED_OF_ANY):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = Namespace(name)
    return found
