"""Diffusion models of `diffusers`, tiny: what is trained is the prediction of noise, or of the image. The library takes
long to import, so that is left to whoever builds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..family import Batch, Family, Outputs, brief, drawn, integers, normal, regression

BATCH, SIDE, TOKENS, WIDTH = 2, 8, 5, 8
UNET: dict[str, Any] = {
    "sample_size": SIDE,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "in_channels": 4,
    "out_channels": 4,
}
ATTENDING = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "in_channels": 4, "sample_size": SIDE}


def _of_library(name: str, **config: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import diffusers

        module: nn.Module = getattr(diffusers, name)(**config)
        with torch.no_grad():  # some layers start at zero, where nothing before them would learn
            for parameter in module.parameters():
                if not parameter.any():
                    parameter.normal_(0.0, 0.05)
        return module

    return make


def _sample(outputs: Outputs, targets: Outputs) -> Tensor:
    return nn.functional.mse_loss(outputs["sample"], targets["labels"])


def _denoiser(name: str, make: Callable[[], nn.Module], inputs: Batch, *output: int) -> Family:
    shape = output or (BATCH, 4, SIDE, SIDE)
    return brief(name, make, inputs, regression(*shape), loss={"name": "mse", "output": "sample"}, criterion=_sample)


IMAGE, TIME, TEXT = normal(BATCH, 4, SIDE, SIDE), integers(1000, BATCH), normal(BATCH, TOKENS, WIDTH)
KL = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
CODEC: dict[str, Any] = {"in_channels": 4, "out_channels": 4, "block_out_channels": (8, 16), "norm_num_groups": 4, **KL}
FAMILIES: tuple[Family, ...] = (
    _denoiser(
        "unet2d_condition",
        _of_library(
            "UNet2DConditionModel",
            **UNET,
            cross_attention_dim=WIDTH,
            attention_head_dim=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
        drawn(sample=IMAGE, timestep=TIME, encoder_hidden_states=TEXT),
    ),
    _denoiser(
        "unet2d",
        _of_library(
            "UNet2DModel",
            **UNET,
            attention_head_dim=4,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ),
        drawn(sample=IMAGE, timestep=TIME),
    ),
    _denoiser(
        "dit",
        _of_library("DiTTransformer2DModel", **ATTENDING, out_channels=4, num_embeds_ada_norm=10, dropout=0.0),
        drawn(hidden_states=IMAGE, timestep=TIME, class_labels=integers(10, BATCH)),
    ),
    _denoiser(
        "pixart",
        _of_library(
            "PixArtTransformer2DModel", **ATTENDING, out_channels=4, cross_attention_dim=16, caption_channels=WIDTH
        ),
        drawn(hidden_states=IMAGE, encoder_hidden_states=TEXT, timestep=TIME),
    ),
    _denoiser(
        "sd3",
        _of_library(
            "SD3Transformer2DModel",
            **ATTENDING,
            out_channels=4,
            joint_attention_dim=WIDTH,
            caption_projection_dim=16,
            pooled_projection_dim=WIDTH,
            pos_embed_max_size=8,
        ),
        drawn(hidden_states=IMAGE, encoder_hidden_states=TEXT, pooled_projections=normal(BATCH, WIDTH), timestep=TIME),
    ),
    _denoiser(
        "vae_kl",
        _of_library("AutoencoderKL", **CODEC, latent_channels=4, layers_per_block=1),
        drawn(sample=IMAGE),
    ),
    _denoiser(
        "vq_model",
        _of_library("VQModel", **CODEC, latent_channels=4, num_vq_embeddings=16, mid_block_add_attention=False),
        drawn(sample=IMAGE),
    ),
    _denoiser(
        "tiny_autoencoder",
        _of_library(
            "AutoencoderTiny",
            in_channels=4,
            out_channels=4,
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
            latent_channels=4,
        ),
        drawn(sample=IMAGE),
    ),
)
