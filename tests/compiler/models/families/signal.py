"""Models of sound, of series of measurements and of plain vectors: Whisper's encoder, and small classes of our own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from transformers import WhisperConfig, WhisperForAudioClassification

from ..family import Batch, Family, Outputs, classes, gaussian, settle

BATCH = 2
CLASSES = 5
TIME = 12
STEPS = 8
"""Of recurrent networks, which are written out."""
Output = dict[str, Tensor]


class MLP(nn.Module):
    """Two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 32)
        self.second = nn.Linear(32, 32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, features: Tensor) -> Output:
        return {"logits": self.head(torch.tanh(self.second(torch.relu(self.first(features)))))}


class DSCNN(nn.Module):
    """Keyword spotting: a wide convolution over time and frequency, then depthwise separable ones (Zhang et al.,
    "Hello Edge", 2017)."""

    def __init__(self, width: int = 16, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(*(self._separable(width) for _ in range(blocks)))
        self.head = nn.Linear(width, CLASSES)

    @staticmethod
    def _separable(width: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )

    def forward(self, spectrogram: Tensor) -> Output:
        hidden = self.blocks(self.stem(spectrogram))
        return {"logits": self.head(nn.functional.avg_pool2d(hidden, hidden.shape[2:]).flatten(1))}


class Conv1d(nn.Module):
    """A series of three channels through strided, dilated and grouped convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(3, 16, 7, stride=2, padding=3),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 3, padding=2, dilation=2, groups=2),
            nn.BatchNorm1d(32),
            nn.ELU(),
            nn.AvgPool1d(3, 2, 1),
            nn.Conv1d(32, 32, 3, padding="same", bias=False),
            nn.GroupNorm(4, 32),
            nn.SiLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(32, CLASSES)

    def forward(self, series: Tensor) -> Output:
        return {"logits": self.head(self.features(series))}


class Recurrent(nn.Module):
    """Two layers over a series of fixed length; a class for each of its moments or for all of it."""

    def __init__(self, kind: type[nn.RNN | nn.LSTM | nn.GRU], bidirectional: bool, each: bool) -> None:
        super().__init__()
        self.layers = kind(8, 16, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(32 if bidirectional else 16, CLASSES)
        self.each = each

    def forward(self, series: Tensor) -> Output:
        states, _ = self.layers(series)
        return {"logits": self.head(states if self.each else states[:, -1])}


class Autoencoder(nn.Module):
    """For anomaly detection: log mel features through a narrow layer and back (MLPerf Tiny's, narrower)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (40, 32, 32, 8)
        self.encoder, self.decoder = self._part(widths), self._part(widths[::-1])
        self.out = nn.Linear(40, 40)

    @staticmethod
    def _part(widths: tuple[int, ...]) -> nn.Sequential:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        return self.out(self.decoder(self.encoder(features)))


def _whisper() -> nn.Module:
    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=TIME,
        vocab_size=16,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        decoder_start_token_id=1,
        init_std=0.1,
        classifier_proj_size=16,
        num_labels=CLASSES,
    )
    return WhisperForAudioClassification(config)


def _family(
    name: str, make: Callable[[], nn.Module], inputs: Batch, sparse: Any, lora: str | None = None, labels: int = 0
) -> Family:
    """A classifier; of each of so many positions where `labels` is given."""

    def build() -> nn.Module:
        torch.manual_seed(0)
        return settle(make(), inputs)

    return Family(name, build, inputs, classes(CLASSES, BATCH, *([labels] if labels else [])), sparse, lora)


def _reconstruction(outputs: Outputs, targets: Outputs) -> Tensor:
    return nn.functional.mse_loss(outputs["output"], targets["features"])


def _anomaly_detector() -> nn.Module:
    torch.manual_seed(0)
    return settle(Autoencoder(), FEATURES)


FEATURES = gaussian("features", BATCH, 40)
SERIES = gaussian("series", BATCH, STEPS, 8)

FAMILIES = (
    _family(
        "whisper_encoder",
        _whisper,
        gaussian("input_features", BATCH, 8, 2 * TIME),
        [{"params": "encoder.conv2.weight", "channels": 0.5}, {"params": "encoder.layers.1.*"}, {"params": "*bias"}],
        lora="*.self_attn.?_proj",
    ),
    _family(
        "ds_cnn",
        DSCNN,
        gaussian("spectrogram", BATCH, 1, 25, 10),
        [{"params": "head.*"}, {"params": "blocks.1.3.weight", "channels": 0.5}, {"params": "*.bias"}],
        lora="blocks.?.3",
    ),
    _family(
        "conv1d",
        Conv1d,
        gaussian("series", BATCH, 3, 32),
        [{"params": "head.*"}, {"params": "features.8.weight", "channels": 0.5}, {"params": "*.bias"}],
        lora="features.8",
    ),
    _family(
        "lstm",
        lambda: Recurrent(nn.LSTM, bidirectional=False, each=False),
        SERIES,
        [{"params": "head.weight", "channels": 0.5}, {"params": "*bias*"}],
        lora="head",
    ),
    _family(
        "gru",
        lambda: Recurrent(nn.GRU, bidirectional=True, each=True),
        SERIES,
        [{"params": "head.*"}, {"params": "layers.*_l1*"}],
        lora="head",
        labels=STEPS,
    ),
    _family(
        "mlp",
        MLP,
        gaussian("features", BATCH, 20),
        [{"params": "head.*"}, {"params": "second.weight", "channels": 0.5}],
        "*",
    ),
    Family(
        "autoencoder",
        _anomaly_detector,
        FEATURES,
        FEATURES,
        [{"params": "decoder.*"}, {"params": "encoder.6.weight", "channels": 0.5}],
        "*",
        {"name": "mse", "target": "features"},
        _reconstruction,
    ),
)
