"""Random inputs for a tiny model of `transformers`, from its configuration and the signature of its `forward`.

What cannot be read from either stands in `special.py`. Shapes are the same for every seed, contents are not; special
tokens that stand for images or sounds keep their places.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .special import FIXED, INPUTS, MEDIA
from .tiny import SIDE, nested

BATCH = 2
TEXT = 8
"""Tokens of a text, beside those that stand for images or sounds."""
TARGET = 6
"""Tokens of a decoder's text."""
_FRAMES = 64
_SAMPLES = 1600

_SIZES = ("grid_thw", "spatial_shapes", "merge_sizes", "target_sizes")
_LENGTHS = ("input_features_mask", "feature_attention_mask", "padding_mask")

Inputs = dict[str, torch.Tensor]


def inputs(model: nn.Module, seed: int) -> Inputs:
    """Keyword arguments of a batch."""
    return _Maker(model, torch.Generator().manual_seed(seed)).made()


def fixed(model_type: str, given: Inputs) -> list[str]:
    """Inputs whose contents decide shapes: sizes of images and lengths of sounds, and then what says where their tokens
    are. They are the same for every seed."""
    sizes = [name for name in given if name.endswith(_SIZES)]
    sizes += [name for name in given if name == "image_sizes"]
    sizes += [name for name in given if name in _LENGTHS and "input_ids" in given]
    places = [name for name in given if name in ("mm_token_type_ids", "attention_mask")]
    return [*FIXED.get(model_type, ()), *(sizes + places if sizes else [])]


class _Maker:
    """Inputs for one model from one generator."""

    def __init__(self, model: Any, generator: torch.Generator) -> None:
        self.model, self.config, self.generator = model, model.config, generator
        self.parameters = inspect.signature(model.forward).parameters
        self.given = INPUTS.get(self.config.model_type, {})

    def made(self) -> Inputs:
        found: Inputs = {}
        for name in self.parameters:
            if name in self.given:
                if self.given[name] != "none":
                    found[name] = self._drawn(*self.given[name])
            elif name in _MAKERS:
                tensor = _MAKERS[name](self)
                if tensor is not None:
                    found[name] = tensor
        return self._with_media(found)

    def get(self, *names: str, default: Any = None) -> Any:
        """The first of the fields that the configuration, or one within it, has."""
        for name in names:
            for config in nested(self.config):
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return default

    def _drawn(self, kind: str, *shape: int, high: int = 2) -> torch.Tensor:
        if kind == "float":
            return torch.randn(*shape, generator=self.generator)
        if kind.startswith("all"):
            return torch.full(shape, int(kind.split()[1]))
        if kind == "uniform":
            return torch.rand(*shape, generator=self.generator)
        if kind == "bool":
            return torch.rand(*shape, generator=self.generator) < 0.5
        if kind in ("true", "false"):
            return torch.full(shape, kind == "true")
        if kind.startswith("grid"):  # columns and rows of the places of an image that is so many wide
            place = torch.arange(shape[1])
            return torch.stack([place % int(kind.split()[1]), place // int(kind.split()[1])], -1).expand(*shape)
        if kind == "boxes":
            corners = torch.rand(*shape[:-1], 2, 2, generator=self.generator).sort(-2).values
            return (corners.flatten(-2) * 60).long()
        if kind.startswith("first"):
            return (torch.arange(shape[1]) < int(kind.split()[1])).expand(*shape).long()
        if kind.startswith("below"):
            return torch.randint(0, int(kind.split()[1]), shape, generator=self.generator)
        raise ValueError(f"there is no kind of input '{kind}'")

    def tokens(self, length: int) -> torch.Tensor:
        """Ids of ordinary tokens: special ones are at both ends of the vocabulary."""
        vocabulary = self.get("vocab_size", "src_vocab_size", default=128)
        return torch.randint(4, max(5, min(vocabulary, 96)), (BATCH, length), generator=self.generator)

    def input_ids(self) -> torch.Tensor | None:
        texts = ("input_ids", "pixel_values", "input_features")
        if self.model.main_input_name not in texts and self.optional("input_ids"):
            return None
        return self.tokens(TEXT)

    def optional(self, name: str) -> bool:
        return self.parameters[name].default is not inspect.Parameter.empty

    def attention_mask(self) -> torch.Tensor | None:
        """Hides the end of the second text."""
        if self.model.main_input_name != "input_ids" or "input_ids" not in self.parameters:
            return None
        mask = torch.ones(BATCH, TEXT, dtype=torch.long)
        mask[1:, -2:] = 0
        return mask

    def decoder_input_ids(self) -> torch.Tensor | None:
        return self.tokens(TARGET) if self.config.is_encoder_decoder else None

    def pixel_values(self) -> torch.Tensor:
        side = self.get("image_size", "input_size", default=2 * SIDE)
        height, width = side if isinstance(side, list | tuple) else (side, side)
        channels = self.get("num_channels", "in_channels", "in_chans", default=3)
        channels = channels if isinstance(channels, int) else 3
        if "image_grid_thw" in self.parameters or "grid_thw" in self.parameters:
            patch, time = self.get("patch_size"), self.get("temporal_patch_size", "patch_temporal", default=1)
            return self._drawn("float", BATCH * 16, channels * time * patch * patch)
        if self.get("num_frames") and "video" in type(self.model).__name__.lower():
            return self._drawn("float", BATCH, self.get("num_frames"), channels, height, width)
        if "image_sizes" in self.parameters and self.get("image_grid_pinpoints"):
            return self._drawn("float", BATCH, 2, channels, height, width)
        return self._drawn("float", BATCH, channels, height, width)

    def patches(self) -> torch.Tensor | None:
        """Flattened patches, where `hidden_states` are what goes into an encoder of images."""
        return self.pixel_values() if "grid_thw" in self.parameters else None

    def features_mask(self) -> torch.Tensor | None:
        features = self.input_features()
        mels = self.get("num_mel_bins", "mel_bins")
        return torch.ones(BATCH, features.shape[1 if features.shape[1] != mels else 2], dtype=torch.long)

    def videos(self) -> torch.Tensor | None:
        if "pixel_values" in self.parameters and self.optional("pixel_values_videos"):
            return None
        pixels = self.pixel_values()
        return self._drawn("float", BATCH, self.get("num_frames", "frames_per_clip", default=2), *pixels.shape[-3:])

    def past_values(self) -> torch.Tensor:
        return self._drawn(
            "float", BATCH, self.get("context_length", default=64), self.get("num_input_channels", default=1)
        )

    def merge_sizes(self) -> torch.Tensor:
        return torch.full((BATCH,), self.get("spatial_merge_size", default=2))

    def grid(self) -> torch.Tensor | None:
        return torch.tensor([[1, 4, 4]] * BATCH)

    def image_sizes(self) -> torch.Tensor | None:
        wanted = inspect.signature(getattr(self.model, "get_image_features", self.model.forward)).parameters
        required = "image_sizes" in wanted and wanted["image_sizes"].default is inspect.Parameter.empty
        if not required and not self.get("image_grid_pinpoints"):
            return None
        side = self.get("image_size", default=SIDE)
        side = side if isinstance(side, int) else side[0]
        return torch.tensor([[side, side]] * BATCH)

    def input_values(self) -> torch.Tensor:
        if mels := self.get("num_mel_bins"):
            return self._drawn("float", BATCH, self.get("max_length", default=_FRAMES), mels)
        if self.optional("input_values") and self.get("audio_channels"):
            return self._drawn("float", BATCH, self.get("audio_channels"), _SAMPLES)
        return self._drawn("float", BATCH, _SAMPLES)

    def input_features(self) -> torch.Tensor:
        if size := self.get("feature_projection_input_dim", "input_dim"):
            return self._drawn("float", BATCH, _FRAMES, size)
        mels = self.get("num_mel_bins", "mel_bins", "feature_size", "input_feat_per_channel", default=16)
        if positions := self.get("max_source_positions"):
            return self._drawn("float", BATCH, mels, 2 * positions)
        if any(isinstance(part, nn.Conv1d) and part.in_channels == mels for part in self.model.modules()):
            return self._drawn("float", BATCH, mels, _FRAMES)
        return self._drawn("float", BATCH, _FRAMES, mels)

    def bbox(self) -> torch.Tensor:
        return self._drawn("boxes", BATCH, TEXT, 4)

    def _method(self, name: str) -> Any:
        """A method of the bare model, whose signature says more, or of the model around it."""
        parts = (getattr(self.model, "vlm", None), getattr(self.model, "model", None), self.model)
        return next((getattr(part, name) for part in parts if hasattr(part, name)), None)

    def _with_media(self, found: Inputs) -> Inputs:
        """Puts as many tokens before the text as its images or sounds have features."""
        for getter, names in (
            ("get_image_features", ("image_token_id", "image_token_index")),
            ("get_audio_features", ("audio_token_id", "audio_token_index")),
        ):
            token = self.get(*names)
            if "input_ids" not in found or found["input_ids"].ndim != 2 or not isinstance(token, int):
                continue
            count = MEDIA.get(self.config.model_type, {}).get(names[0], self._features(getter, found))
            places = torch.full((len(found["input_ids"]), count), token)
            found["input_ids"] = torch.cat([places, found["input_ids"]], 1)
            if "attention_mask" in found:
                found["attention_mask"] = torch.cat([torch.ones_like(places), found["attention_mask"]], 1)
            for name in ("token_type_ids", "mm_token_type_ids"):
                if name in self.parameters:
                    found[name] = (found["input_ids"] == token).long()
        return found

    def _features(self, getter: str, found: Inputs) -> int:
        """Features of the images or sounds of one sample, as the model's own method says; 0 where it lacks inputs."""
        method = self._method(getter)
        if method is None:
            return 0
        wanted = {k: p for k, p in inspect.signature(method).parameters.items() if p.kind is not p.VAR_KEYWORD}
        media = {name: tensor for name, tensor in found.items() if name in wanted and name != "input_ids"}
        if not media or any(p.default is p.empty and name not in media for name, p in wanted.items()):
            return 0
        with torch.no_grad():
            result = method(**media)
        if getattr(result, "pooler_output", None) is not None:
            return _rows(result.pooler_output) // BATCH
        return _rows(getattr(result, "last_hidden_state", result)) // BATCH


def _rows(features: Any) -> int:
    """Vectors in a tensor, or in all tensors of a list."""
    if isinstance(features, torch.Tensor):
        return features.numel() // features.shape[-1]
    return sum(map(_rows, features))


_MAKERS: Mapping[str, Any] = {
    "input_ids": _Maker.input_ids,
    "attention_mask": _Maker.attention_mask,
    "decoder_input_ids": _Maker.decoder_input_ids,
    "pixel_values": _Maker.pixel_values,
    "image_grid_thw": _Maker.grid,
    "grid_thw": _Maker.grid,
    "image_sizes": _Maker.image_sizes,
    "merge_sizes": _Maker.merge_sizes,
    "image_merge_sizes": _Maker.merge_sizes,
    "input_values": _Maker.input_values,
    "input_features": _Maker.input_features,
    "bbox": _Maker.bbox,
    "hidden_states": _Maker.patches,
    "input_features_mask": _Maker.features_mask,
    "feature_attention_mask": _Maker.features_mask,
    "pixel_values_videos": _Maker.videos,
    "past_values": _Maker.past_values,
}
