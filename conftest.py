"""What pytest needs wherever it begins: what registers itself where it is imported, imported in its own order.

A file of core or lab.diagnose that pytest imports first, for its examples, would be run twice: by its package, and by
pytest.
"""

import core  # noqa: F401
import lab.diagnose  # noqa: F401
