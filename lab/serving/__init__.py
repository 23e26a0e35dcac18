"""Programs behind HTTP: the Open Inference Protocol on FastAPI, requests that come together run together.

``python -m lab serve model.gl`` is the command; `app` gives the application, for other servers and for tests.
"""

from __future__ import annotations

try:
    import fastapi
    import uvicorn
except ImportError as error:
    raise ImportError(f"lab.serving needs FastAPI and uvicorn: {error}. Remedy: pip install 'gradlab[serve]'") from None

from .app import app
from .limits import Limits
from .refusal import Refused
from .served import Served

__all__ = ["Limits", "Refused", "Served", "app"]
