"""Language models that read images among their words, from `transformers` configurations, trained on both inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    CLIPVisionConfig,
    GemmaConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    SiglipVisionConfig,
)

from ..family import Batch, Family, brief, classes

VOCABULARY, IMAGE, START, END = 64, 60, 61, 62
BATCH, LENGTH, PATCHES = 2, 10, 4
"""PATCHES: tokens of an image, which come first."""
SIDE, PATCH = 8, 4
GENERAL: dict[str, Any] = {"use_cache": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "initializer_range": 0.1,
}
WORDS: dict[str, Any] = {
    **GENERAL,
    **SMALL,
    "vocab_size": VOCABULARY,
    "num_key_value_heads": 1,
    "max_position_embeddings": 16,
}
EYES: dict[str, Any] = {**SMALL, "image_size": SIDE, "patch_size": PATCH}


def _words(generator: torch.Generator, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> torch.Tensor:
    """Token ids: an image, and words."""
    image = torch.tensor([*before, *[IMAGE] * PATCHES, *after]).expand(BATCH, -1)
    words = torch.randint(3, IMAGE, (BATCH, LENGTH - image.shape[1]), generator=generator)
    return torch.cat([image, words], 1)


def _seen(seed: int, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "input_ids": _words(generator),
        "pixel_values": torch.randn(BATCH, 3, SIDE, SIDE, generator=generator),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        **more,
    }


def llava() -> nn.Module:
    """Without the norm of CLIP's pooled vector, which nothing reads."""
    module = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=CLIPVisionConfig(**EYES),
            text_config=LlamaConfig(**WORDS),
            image_token_index=IMAGE,
            vision_feature_layer=-1,
        )
    )
    module.model.vision_tower.post_layernorm = nn.Identity()
    return module


def paligemma() -> nn.Module:
    """What is asked about the image sees all of itself; what is answered, what comes before (`token_type_ids`)."""
    return PaliGemmaForConditionalGeneration(
        PaliGemmaConfig(
            vision_config=SiglipVisionConfig(**EYES, vision_use_head=False),
            text_config=GemmaConfig(**WORDS, head_dim=8),
            image_token_index=IMAGE,
            projection_dim=16,
            hidden_size=16,
        )
    )


def _asked(seed: int) -> dict[str, torch.Tensor]:
    answered = (torch.arange(LENGTH) >= PATCHES + 2).long().expand(BATCH, -1)
    return _seen(seed, token_type_ids=answered)


def qwen2_vl() -> nn.Module:
    return Qwen2VLForConditionalGeneration(
        Qwen2VLConfig(
            text_config={**WORDS, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]}},
            vision_config={"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": PATCH},
            image_token_id=IMAGE,
            vision_start_token_id=START,
            vision_end_token_id=END,
        )
    )


def _gridded(seed: int) -> dict[str, torch.Tensor]:
    """Images of 4 x 4 patches, all images' patches in one axis; four neighbours make a token."""
    generator = torch.Generator().manual_seed(seed)
    ids = _words(generator, (START,), (END,))
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(BATCH * PATCHES * 4, 3 * 2 * PATCH**2, generator=generator),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * BATCH),
        "mm_token_type_ids": (ids == IMAGE).long(),
    }


def _family(name: str, make: Callable[[], nn.Module], inputs: Batch, **options: Any) -> Family:
    loss = {"name": "cross_entropy", "output": "logits"}
    return brief(name, make, inputs, classes(VOCABULARY, BATCH, LENGTH), loss=loss, lora="*.q_proj", **options)


FAMILIES = [
    _family("llava", llava, _seen),
    _family("paligemma", paligemma, _asked),
    _family("qwen2-vl", qwen2_vl, _gridded, fixed=("image_grid_thw", "mm_token_type_ids", "attention_mask")),
]
