"""Importers: a model of some framework -> Graph. Everything goes through ONNX."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .jax.importer import from_jax as from_jax
    from .keras.importer import from_keras as from_keras
    from .onnx.survey import OperatorUse as OperatorUse
    from .onnx.survey import Survey as Survey
    from .onnx.survey import UnsupportedNode as UnsupportedNode
    from .onnx.survey import survey as survey
    from .opening import load as load
    from .torch.importer import from_checkpoint as from_checkpoint
    from .torch.importer import from_torch as from_torch
    from .torch.pretrained import pretrained as pretrained
else:
    __getattr__ = lazily(
        __name__,
        {
            "jax.importer": "from_jax",
            "keras.importer": "from_keras",
            "onnx.survey": "OperatorUse Survey UnsupportedNode survey",
            "opening": "load",
            "torch.importer": "from_checkpoint from_torch",
            "torch.pretrained": "pretrained",
        },
    )
