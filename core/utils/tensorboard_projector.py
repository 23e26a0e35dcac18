"""The files of TensorBoard's projector: vectors, what is said of each, and a sheet of their pictures."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import text
from ..vision.images import pillow

CONFIG = "projector_config.pbtxt"
MOST_PIXELS = 8192  # of a sheet's side, for TensorBoard


def written(log_dir: str, tag: str, step: int, vectors: np.ndarray, metadata: Sequence[Any] | None,
            header: Sequence[str] | None, pictures: np.ndarray | None) -> None:  # fmt: skip
    """Write an embedding of `vectors` (N, D), and name it in the projector's list, once.

    metadata : a label for each vector, or a row of labels whose columns `header` names. pictures : (N, 1 or 3, S, S) in
    [0, 1] or bytes.

    *Raises*: ValueError for other shapes or numbers of labels.
    """
    n = len(vectors) if vectors.ndim == 2 else 0
    if not n:
        raise ValueError(text("mat should be 2D, where mat.size(0) is the number of data points", op="add_embedding",
                              came=f"shape {vectors.shape}"))  # fmt: skip
    if metadata is not None and len(metadata) != n:
        raise ValueError(text("#labels should equal with #data points", op="add_embedding",
                              came=f"{len(metadata)} labels for {n} vectors"))  # fmt: skip
    place = f"{step:05d}/{''.join(c if c.isalnum() or c in '-_.' else '_' for c in tag)}"
    folder = Path(log_dir) / place
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in vectors.tolist()]
    (folder / "tensors.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = [f"tensor_name: {json.dumps(f'{tag}:{step:05d}')}", f"tensor_path: {json.dumps(f'{place}/tensors.tsv')}"]
    if metadata is not None:
        (folder / "metadata.tsv").write_text(_table(metadata, header), encoding="utf-8")
        said.append(f"metadata_path: {json.dumps(f'{place}/metadata.tsv')}")
    if pictures is not None:
        size = _sheet(pictures, n, folder / "sprite.png")
        said.append(f"sprite {{\n  image_path: {json.dumps(f'{place}/sprite.png')}\n"
                    f"  single_image_dim: {size}\n  single_image_dim: {size}\n}}")  # fmt: skip
    block = "embeddings {\n" + "\n".join(said) + "\n}\n"
    config = Path(log_dir) / CONFIG
    before = config.read_text(encoding="utf-8") if config.exists() else ""
    if said[0] not in before:
        config.write_text(before + block, encoding="utf-8")


def _table(metadata: Sequence[Any], header: Sequence[str] | None) -> str:
    def cell(x: Any) -> str:
        return str(x).replace("\t", " ").replace("\n", " ")

    if header is None:
        return "".join(f"{cell(x)}\n" for x in metadata)
    if any(isinstance(row, str) or len(row) != len(header) for row in metadata):
        raise ValueError(text("len of header must be equal to the number of columns in metadata", op="add_embedding",
                              needed=f"rows of {len(header)}: {', '.join(header)}"))  # fmt: skip
    return "".join("\t".join(map(cell, row)) + "\n" for row in (header, *metadata))


def _sheet(pictures: np.ndarray, n: int, path: Path) -> int:
    """Write the pictures row by row into one that is square, and return the size of each."""
    image = pillow("add_embedding")
    size = pictures.shape[-1]
    side = math.ceil(math.sqrt(n))
    if pictures.ndim != 4 or len(pictures) != n or pictures.shape[1] not in (1, 3) or pictures.shape[2] != size:
        raise ValueError(text("#images should equal with #data points, and each be square", op="add_embedding",
                              came=f"shape {pictures.shape} for {n} vectors", needed="(N, 1 or 3, S, S)"))  # fmt: skip
    if side * size > MOST_PIXELS:
        raise ValueError(text(f"Sprite too large: {side} × {side} pictures of {size}", op="add_embedding",
                              needed=f"at most {MOST_PIXELS} pixels a side", remedy="smaller pictures"))  # fmt: skip
    bytes_ = (
        pictures if pictures.dtype == np.uint8 else (pictures.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
    )
    whole = np.zeros((side * size, side * size, 3), np.uint8)
    for k, picture in enumerate(bytes_):
        y, x = divmod(k, side)
        whole[y * size : (y + 1) * size, x * size : (x + 1) * size] = picture.transpose(1, 2, 0)
    image.fromarray(whole).save(os.fspath(path))
    return size
