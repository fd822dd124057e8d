"""A few architectures of `transformers` as `python -m benchmarks.coverage --all` tries all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from benchmarks.coverage import report, special
from benchmarks.coverage.architectures import Architecture, architectures
from benchmarks.coverage.inputs import inputs
from benchmarks.coverage.outcomes import Engine, Outcome, Until
from benchmarks.coverage.sweep import Record, read, sweep
from benchmarks.coverage.ties import sorts_equals
from benchmarks.coverage.tiny import VOCABULARY, configuration, nested
from benchmarks.coverage.trial import attempt, build
from tests.sweeps import some

SAMPLE = {
    "gemma2": Engine.MACHINE,
    "segformer": Engine.INTERPRETER,
    "wav2vec2": Engine.INTERPRETER,
    "bart": Engine.INTERPRETER,
    "falcon_mamba": Engine.INTERPRETER,
    "clip": Engine.MACHINE,
}
"""Text, images, sound, an encoder with a decoder, a state-space model, and what computes our side."""


@pytest.mark.parametrize("model_type", some(SAMPLE, 3))
def test_an_architecture_trains_as_pytorch_trains_it(model_type: str) -> None:
    stages = []
    trial = attempt(
        architectures()[model_type], Until.TRAINED, SAMPLE[model_type], lambda trial: stages.append(trial.stage)
    )
    assert (trial.outcome, trial.reason) == (Outcome.AGREES, "")
    assert stages == list(trial.seconds)


def test_configurations_are_tiny_and_special_tokens_lie_in_the_vocabulary() -> None:
    for model_type in ("llama", "qwen2_vl", "bart", "swin", "deepseek_v3"):
        for config in nested(configuration(model_type)):
            assert getattr(config, "num_hidden_layers", 0) <= 4
            assert getattr(config, "vocab_size", 0) <= VOCABULARY
            assert getattr(config, "image_token_id", 0) < VOCABULARY


def test_inputs_have_one_shape_and_other_contents_for_every_seed() -> None:
    model = build(architectures()["bert"])
    first, second = inputs(model, 0), inputs(model, 1)
    assert {name: x.shape for name, x in first.items()} == {name: x.shape for name, x in second.items()}
    assert not first["input_ids"].equal(second["input_ids"])
    assert first["input_ids"].equal(inputs(model, 0)["input_ids"])


def test_a_text_has_as_many_places_as_its_sound_has_features() -> None:
    model: Any = build(architectures()["voxtral"])
    batch = inputs(model, 0)
    with torch.no_grad():
        features = model.model.get_audio_features(batch["input_features"]).pooler_output
    assert int((batch["input_ids"] == model.config.audio_token_id).sum()) == len(features) > 0


def test_a_backbone_of_as_many_stages_gives_the_outputs_of_the_same_ones() -> None:
    for model_type in ("rt_detr", "upernet", "pp_ocrv5_server_det"):
        default, tiny = CONFIG_MAPPING[model_type]().backbone_config, configuration(model_type).backbone_config
        assert tiny.out_indices == default.out_indices and len(tiny.out_indices) > 1


def test_what_no_rule_can_know_is_of_model_types_that_there_are() -> None:
    assert {*special.FIELDS, *special.INPUTS, *special.FIXED, *special.MEDIA, *special.CLASSES} <= {*CONFIG_MAPPING}


def test_a_sweep_writes_what_became_of_each_architecture(tmp_path: Path) -> None:
    file, heard = tmp_path / "sweep.jsonl", list[Record]()
    chosen = [Architecture("llama", "LlamaForCausalLM"), Architecture("llama", "NoSuchModel")]
    sweep(chosen[1:], file, 1, Until.TORCH, Engine.INTERPRETER, heard.append)
    assert read(file)["llama"] == heard[0]
    assert heard[0]["outcome"] == Outcome.UNTRAINED and "NoSuchModel" in heard[0]["reason"]
    sweep(chosen[:1], file, 1, Until.TORCH, Engine.INTERPRETER, heard.append)
    with file.open("a") as lines:
        lines.write('{"model_type": "cut o')
    assert read(file) == {"llama": heard[1]}
    assert heard[1]["outcome"] == Outcome.TRAINS


def test_the_document_has_every_reason_once_with_its_architectures(tmp_path: Path) -> None:
    def record(model_type: str, outcome: Outcome, reason: str = "") -> Record:
        return {
            "model_type": model_type, "class_name": f"{model_type}Model", "outcome": outcome.value, "reason": reason,
            "seconds": {}, "inputs": {},
        }  # fmt: skip

    document = tmp_path / "models.md"
    document.write_text(f"before\n<!-- begin {report.SECTION} -->\nold\n<!-- end {report.SECTION} -->\nafter\n")
    records = [
        record("a", Outcome.AGREES),
        record("b", Outcome.REFUSED, "bModel has a | in it"),
        record("c", Outcome.REFUSED, "cModel has a | in it"),
        record("d", Outcome.UNTRAINED, "no <package>"),
    ]
    report.write(document, json.loads(json.dumps(records)))
    text = document.read_text()
    assert "old" not in text and text.startswith("before") and text.endswith("after\n")
    assert "| b, c | the module has a \\| in it |" in text
    assert "| d | no &lt;package> |" in text
    assert f"4 of {len(architectures())} architectures were tried; 3 train" in text


class Choosing(nn.Module):
    def __init__(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.choose = choose

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.choose(x)


EQUALS = torch.tensor([[3.0, 1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda x: x.topk(1).values, False),
        (lambda x: x.topk(2).values, True),
        (lambda x: torch.topk(x, k=1, largest=False).values, False),
        (lambda x: torch.topk(x, 2, largest=False, dim=1).indices, True),
        (lambda x: x.topk(1, 0).values, False),
        (lambda x: x.sort().values, True),
        (lambda x: x.argsort(dim=1, stable=True), False),
        (lambda x: torch.argsort(x, descending=True), True),
    ],
)
def test_an_order_that_pytorch_leaves_open(choose: Callable[[torch.Tensor], torch.Tensor], expected: bool) -> None:
    assert sorts_equals(Choosing(choose), [{"x": EQUALS}]) == expected
