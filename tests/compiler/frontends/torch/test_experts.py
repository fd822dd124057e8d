"""Mixtures of experts whose classes loop over the experts that were chosen."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.integrations import moe
from transformers.models.dbrx.modeling_dbrx import DbrxConfig, DbrxExperts
from transformers.models.jetmoe.modeling_jetmoe import JetMoeConfig, JetMoeMoA, JetMoeMoE
from transformers.models.longcat_flash.modeling_longcat_flash import LongcatFlashConfig, LongcatFlashExperts
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeConfig, NllbMoeExperts
from transformers.models.switch_transformers.modeling_switch_transformers import (
    SwitchTransformersConfig,
    SwitchTransformersExperts,
)

from pockengine.frontends.torch.capture.rewriting.experts import experts_captured

TOKENS, WIDTH, EXPERTS = 6, 8, 4


def _cases() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """The module, and the shape of what goes in."""
    switch = SwitchTransformersConfig(d_model=WIDTH, d_ff=12, num_experts=EXPERTS)
    nllb = NllbMoeConfig(d_model=WIDTH, num_experts=EXPERTS, moe_token_dropout=0.2)
    ffn = {"ffn_hidden_size": 12, "moe_num_experts": EXPERTS, "hidden_size": WIDTH}
    longcat = LongcatFlashConfig(
        hidden_size=WIDTH, expert_ffn_hidden_size=12, n_routed_experts=EXPERTS - 1, zero_expert_num=1
    )
    return {
        "switch": (SwitchTransformersExperts(switch), (TOKENS, WIDTH)),
        "nllb": (NllbMoeExperts(nllb, 12), (TOKENS, WIDTH)),
        "dbrx": (DbrxExperts(DbrxConfig(d_model=WIDTH, n_heads=2, ffn_config=ffn).ffn_config), (2, TOKENS // 2, WIDTH)),
        "longcat": (LongcatFlashExperts(longcat), (TOKENS, WIDTH)),
    }


@pytest.mark.parametrize("name", ["switch", "nllb", "dbrx", "longcat"])
def test_all_experts_are_what_the_loop_computes(name: str) -> None:
    assert moe.ExpertsInterface
    module, shape = _cases()[name]
    generator = torch.Generator().manual_seed(5)
    for parameter in module.eval().parameters():
        nn.init.normal_(parameter, generator=generator)
    states = torch.randn(*shape, generator=generator)
    chosen = torch.stack([torch.randperm(EXPERTS, generator=generator)[:2] for _ in range(TOKENS)])
    weights = torch.rand(TOKENS, 2, generator=generator)
    if name == "switch":
        chosen, weights = nn.functional.one_hot(chosen[:, :1], EXPERTS), weights[:, :1]
    expected = module(states, chosen, weights)
    with experts_captured(module):
        found = module(states, chosen, weights)
    torch.testing.assert_close(found, expected)


def test_what_jetmoe_sorts_by_experts_needs_no_numbers() -> None:
    config = JetMoeConfig(hidden_size=WIDTH, intermediate_size=12, num_local_experts=EXPERTS, num_experts_per_tok=2)
    generator = torch.Generator().manual_seed(5)
    perceptron, attention = JetMoeMoE(config), JetMoeMoA(config)
    for parameter in (*perceptron.parameters(), *attention.parameters()):
        nn.init.normal_(parameter, std=0.3, generator=generator)
    states = torch.randn(2, TOKENS, WIDTH, generator=generator)

    def computed() -> tuple[torch.Tensor, torch.Tensor]:
        mapped, _, order = attention.map(states)
        return perceptron(states), attention.reduce(mapped, order)

    expected = computed()
    with experts_captured(nn.ModuleList([perceptron, attention])):
        assert isinstance(perceptron.router(states[0])[3], torch.Tensor)
        found = computed()
    torch.testing.assert_close(found, expected)
