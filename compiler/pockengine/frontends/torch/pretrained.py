"""A language model's folder as it is downloaded from a model hub: `config.json` and safetensors files.

`config.json` names a class of `transformers`, which is built on the meta device. No code of the folder is run, nothing
is downloaded, and what it says is hostile until it is checked.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import DynamicShapeError, ModelError, nearest
from ...ir import Graph
from ..exported import first_line, quiet
from .importer import from_checkpoint

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

_CONFIG = "config.json"
_MOST_BYTES = 16 << 20
_MOST_PARAMETERS = 200_000
_MOST_LAYERS = 10_000

_OF_A_SESSION = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
"""How a model is to be computed, which may name a kernel that `transformers` would download and run. It is left out."""


@dataclass(frozen=True)
class Pretrained:
    """A folder's model on the meta device, and inputs as the compiled model takes them, by name."""

    folder: Path
    module: PreTrainedModel
    inputs: dict[str, Tensor]

    def graph(self) -> Graph:
        """The imported model, named as the folder is; weights are memory-mapped. Raises ModelError."""
        return from_checkpoint(self.module, self.folder, (), self.inputs).with_(name=self.folder.resolve().name)

    def loaded(self) -> nn.Module:
        """The module with its weights in memory, in f32. Raises ModelError."""
        from .weights import placed

        with placed(self.module, self.folder):
            module: nn.Module = copy.deepcopy(self.module).float()
        return module


def pretrained(folder: Path, dims: Mapping[str, int] | None = None, batch: int | None = None) -> Pretrained:
    """Read what a folder says of its model.

    dims   `sequence`, the tokens of a sample; `batch`, the samples, if `batch` is not given

    Raises ModelError where it is no such folder or its model is none of `transformers`; DynamicShapeError."""
    said = _config(folder)
    kind = _class(said, folder)
    samples, tokens = _sizes(dims or {}, batch)
    try:
        module = _built(kind, said)
    except ModelError:
        raise
    except Exception as error:  # whatever a wrong number in it leads to
        raise ModelError(f"'{folder / _CONFIG}' makes no {kind.__name__}: {first_line(error)}") from error
    longest = getattr(module.config, "max_position_embeddings", None)
    if isinstance(longest, int) and tokens > longest:
        raise DynamicShapeError(f"{kind.__name__} has {longest} positions: --dim sequence={tokens} is too long")
    return Pretrained(folder, module, _inputs(module, samples, tokens))


def _config(folder: Path) -> dict[str, Any]:
    """Contents of `config.json`."""
    file = folder / _CONFIG
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise ModelError(
            f"the folder '{folder}' has no {_CONFIG}: a model is an ONNX file, or a folder with {_CONFIG} and "
            "safetensors files as save_pretrained writes it"
        ) from None
    except OSError as error:
        raise ModelError(f"cannot read '{file}': {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise ModelError(f"'{file}' has more than {_MOST_BYTES} bytes")
    try:
        said = _without_sessions(json.loads(text))
    except (RecursionError, ValueError):
        raise ModelError(f"'{file}' is not JSON, or it is truncated") from None
    if not isinstance(said, dict):
        raise ModelError(f"'{file}' must be an object that describes a model")
    for key, value in _entries(said):
        if key == "backbone" and isinstance(value, str):
            raise ModelError(f"'{file}' has another model ('{value[:80]}') as its backbone: import it in Python")
        if "layer" in key and type(value) is int and value > _MOST_LAYERS:
            raise ModelError(f"'{file}' has {value} as '{key[:80]}', and more than {_MOST_LAYERS} layers are not built")
    return said


def _without_sessions(said: Any) -> Any:
    if isinstance(said, dict):
        return {key: _without_sessions(value) for key, value in said.items() if key not in _OF_A_SESSION}
    return [_without_sessions(one) for one in said] if isinstance(said, list) else said


def _entries(said: Any) -> Iterator[tuple[str, Any]]:
    """Every key of the objects in it, with its value."""
    if isinstance(said, dict):
        yield from said.items()
    for one in said.values() if isinstance(said, dict) else said if isinstance(said, list) else ():
        yield from _entries(one)


def _class(said: Mapping[str, Any], folder: Path) -> type[PreTrainedModel]:
    """The class that `architectures` names."""
    try:
        import transformers
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError:
        raise ModelError("a folder's model needs PyTorch and transformers: pip install 'pockengine[torch]'") from None
    kind = said.get("model_type")
    own = "; its own Python is not run" if "auto_map" in said else ""
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise ModelError(
            f"'{folder / _CONFIG}' has the model_type {str(kind)[:80]!r}, which transformers "
            f"{transformers.__version__} does not know{own}"
        )
    names = said.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    if name is None:
        raise ModelError(f"'{folder / _CONFIG}' has no 'architectures', such as [\"LlamaForCausalLM\"]")
    with quiet():
        found = getattr(transformers, name, None) if name.isidentifier() else None
    if not isinstance(found, type) or not issubclass(found, transformers.PreTrainedModel):
        raise ModelError(
            f"'{folder / _CONFIG}' has the architecture '{name[:80]}', which transformers {transformers.__version__} "
            f"does not have{own}"
        )
    if getattr(found, "main_input_name", None) != "input_ids" or said.get("is_encoder_decoder"):
        raise ModelError(
            f"{name} takes more than a text's tokens: import it in Python, with from_checkpoint and example inputs"
        )
    return found


def _built(kind: type[PreTrainedModel], said: Mapping[str, Any]) -> PreTrainedModel:
    import torch
    from torch.nn.modules.module import register_module_parameter_registration_hook
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    count = 0

    def counted(module: nn.Module, name: str, parameter: Any) -> None:
        nonlocal count
        count += 1
        if count > _MOST_PARAMETERS:
            raise ModelError(f"{kind.__name__} would have more than {_MOST_PARAMETERS} parameters")

    watched = register_module_parameter_registration_hook(counted)
    try:
        with quiet(), torch.device("meta"):
            config: PretrainedConfig = CONFIG_MAPPING[said["model_type"]].from_dict(dict(said))
            config.use_cache = False
            return kind._from_config(config).eval()
    finally:
        watched.remove()


def _sizes(dims: Mapping[str, int], batch: int | None) -> tuple[int, int]:
    """Samples and tokens of an input."""
    names = ("batch", "sequence")
    for name in dims:
        if name not in names:
            raise DynamicShapeError(f"the model has no dynamic dimension '{name}'{nearest(name, names)}")
    samples = dims.get("batch", batch)
    if samples is None:
        raise DynamicShapeError("the samples of a batch are not given: give them with --batch N")
    if "sequence" not in dims:
        raise DynamicShapeError("the tokens of a sample are not given: give them with --dim sequence=VALUE")
    for name, size in (("batch", samples), ("sequence", dims["sequence"])):
        if size < 1:
            raise DynamicShapeError(f"the dimension '{name}' must be at least 1, not {size}")
    return samples, dims["sequence"]


def _inputs(module: nn.Module, samples: int, tokens: int) -> dict[str, Tensor]:
    """Tokens, and what keeps apart what lies in one sample: positions where the model is causal, so that packed
    documents do not see each other; else the mask of the padding."""
    import torch
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    taken = inspect.signature(module.forward).parameters
    causal = type(module).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    inputs = {"input_ids": torch.zeros(samples, tokens, dtype=torch.int64)}
    if causal and "position_ids" in taken:
        inputs["position_ids"] = torch.arange(tokens).repeat(samples, 1)
    elif not causal and "attention_mask" in taken:
        inputs["attention_mask"] = torch.ones(samples, tokens, dtype=torch.int64)
    return inputs
