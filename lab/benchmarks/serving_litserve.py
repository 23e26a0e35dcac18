"""LitServe's server of a model: ``python -m lab.benchmarks.serving_litserve mlp 8000 32``.

It is written as LitServe's documentation does it: the module itself, eager, in batches.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import core

from .serving_contestants import model

try:
    import litserve
except ImportError:  # the contestant, which nothing else needs
    litserve = None

_API: Any = getattr(litserve, "LitAPI", object)


class API(_API):  # type: ignore[misc]
    """Reads and writes the tensors of the Open Inference Protocol, as far as the load test uses it."""

    name = "mlp"

    def setup(self, device: str) -> None:
        """Make the model, in the worker."""
        core.set_num_threads(1)
        self.module, self.example = model(self.name)

    # LitServe reads annotations as what the request's fields are, and takes JSON where there is none
    def decode_request(self, request):  # type: ignore[no-untyped-def]
        """From JSON to an array."""
        entry = request["inputs"][0]
        return np.asarray(entry["data"], self.example.dtype).reshape(entry["shape"])

    def batch(self, inputs: list[np.ndarray]) -> np.ndarray:
        """Stack requests."""
        return np.concatenate(inputs)

    def unbatch(self, output: np.ndarray) -> list[np.ndarray]:
        """Take the outputs apart."""
        return [output[k : k + 1] for k in range(len(output))]

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Run the model."""
        with core.no_grad():
            return np.asarray(self.module(core.from_numpy(x)).numpy())

    def encode_response(self, output):  # type: ignore[no-untyped-def]
        """From an array to JSON."""
        return {"outputs": [{"shape": list(output.shape), "data": output.ravel().tolist()}]}


class GPTAPI(API):
    """The same for the GPT."""

    name = "gpt"


if __name__ == "__main__":
    which, at, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    together = {"max_batch_size": most, "batch_timeout": 0.002} if most > 1 else {}
    api = {"mlp": API, "gpt": GPTAPI}[which](**together)
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=at, generate_client_file=False, log_level="warning")
