"""The one place where a model's file is opened, whatever it is: an ONNX file, or a folder of a model hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..ir import Graph
from .onnx.importer import load as load_onnx


def load(
    path: str | Path, dims: Mapping[str, int] | None = None, batch: int | None = None, *, need_weights: bool = True
) -> Graph:
    """Import a model.

    path   an ONNX file; or a language model's folder as `save_pretrained` writes it, whose architecture is built with
           `transformers` from its `config.json` (no code of the folder is run)
    dims   value of each named dynamic dimension; an unnamed one is called `input:axis`. Those of a folder are `batch`
           and `sequence`
    batch  value of the first dimension of inputs where it is dynamic and `dims` does not give it
    need_weights  False: the file of an ONNX model's external weights may be missing; the graph is then good for
                  questions, not for training

    Raises ModelError, UnsupportedOperatorError or DynamicShapeError."""
    path = Path(path)
    if not path.is_dir():
        return load_onnx(path, dims, batch, need_weights=need_weights)
    from .torch.pretrained import pretrained

    return pretrained(path, dims, batch).graph()
