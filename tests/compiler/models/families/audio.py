"""Sound: codecs with residual quantisation, separators, vocoders, recognisers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from ..family import Family, brief, classes, drawn, normal

BATCH, SAMPLES, WIDTH, CLASSES = 2, 64, 8, 5
Output = dict[str, Tensor]


class Quantiser(nn.Module):
    """One codebook: the nearest entry, a straight-through gradient to what was quantised (van den Oord et al. 2017)."""

    def __init__(self, entries: int = 12) -> None:
        super().__init__()
        self.entries = nn.Embedding(entries, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, time, width] -> the same, and what it costs"""
        apart = (x**2).sum(-1, keepdim=True) - 2 * x @ self.entries.weight.T + (self.entries.weight**2).sum(-1)
        nearest = self.entries(apart.argmin(-1))
        cost = F.mse_loss(nearest, x.detach()) + 0.25 * F.mse_loss(x, nearest.detach())
        return x + (nearest - x).detach(), cost


class EnCodec(nn.Module):
    """Defossez et al. 2022: a strided encoder, three codebooks one after the other, a decoder; losses in time and in
    magnitudes of a spectrogram."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            weight_norm(nn.Conv1d(1, WIDTH, 7, padding=3)), nn.ELU(),
            weight_norm(nn.Conv1d(WIDTH, WIDTH, 4, 2, 1)), nn.ELU(), weight_norm(nn.Conv1d(WIDTH, WIDTH, 4, 2, 1)),
        )  # fmt: skip
        self.quantisers = nn.ModuleList(Quantiser() for _ in range(3))
        self.recurrent = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.Sequential(
            weight_norm(nn.ConvTranspose1d(WIDTH, WIDTH, 4, 2, 1)), nn.ELU(),
            weight_norm(nn.ConvTranspose1d(WIDTH, WIDTH, 4, 2, 1)), nn.ELU(),
            weight_norm(nn.Conv1d(WIDTH, 1, 7, padding=3)),
        )  # fmt: skip
        self.register_buffer("window", torch.hann_window(16), persistent=False)

    def _magnitudes(self, sound: Tensor) -> Tensor:
        frames = sound.unfold(-1, 16, 8) * self.window
        turn = -2 * math.pi / 16 * torch.arange(9)[:, None] * torch.arange(16)
        return torch.sqrt((frames @ torch.cos(turn).T) ** 2 + (frames @ torch.sin(turn).T) ** 2 + 1e-5)

    def forward(self, sound: Tensor) -> Output:
        x = self.encoder(sound[:, None]).transpose(1, 2)
        x = x + self.recurrent(x)[0]
        left, found, cost = x, torch.zeros_like(x), torch.zeros(())
        for quantiser in self.quantisers:
            step, price = quantiser(left)
            left, found, cost = left - step.detach(), found + step, cost + price
        back = self.decoder(found.transpose(1, 2))[:, 0]
        spectral = F.l1_loss(self._magnitudes(back), self._magnitudes(sound))
        return {"loss": F.l1_loss(back, sound) + spectral + cost}


class ConvTasNet(nn.Module):
    """Luo & Mesgarani 2019: two speakers by masks on a learned basis; the better order of two."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = (
            nn.Conv1d(1, WIDTH, 8, 4, bias=False),
            nn.ConvTranspose1d(WIDTH, 1, 8, 4, bias=False),
        )
        self.norm = nn.GroupNorm(1, WIDTH)
        self.body = nn.Sequential(
            nn.Conv1d(WIDTH, 16, 1), nn.PReLU(), nn.GroupNorm(1, 16),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16), nn.PReLU(), nn.Conv1d(16, 2 * WIDTH, 1),
        )  # fmt: skip

    @staticmethod
    def _ratio(found: Tensor, wanted: Tensor) -> Tensor:
        share = (found * wanted).sum(-1, keepdim=True) / ((wanted**2).sum(-1, keepdim=True) + 1e-8) * wanted
        return -10 * torch.log10((share**2).sum(-1) / (((found - share) ** 2).sum(-1) + 1e-8) + 1e-8)

    def forward(self, mixed: Tensor, speakers: Tensor) -> Output:
        x = F.relu(self.encoder(mixed[:, None]))
        masks = torch.sigmoid(self.body(self.norm(x))).view(x.shape[0], 2, WIDTH, -1)
        found = self.decoder((masks * x[:, None]).flatten(0, 1)).view(x.shape[0], 2, -1)
        straight = self._ratio(found, speakers).mean(-1)
        crossed = self._ratio(found.flip(1), speakers).mean(-1)
        return {"loss": torch.minimum(straight, crossed).mean()}


class Snake(nn.Module):
    """Ziyin et al. 2020: x + sin^2(ax) / a."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / (self.alpha + 1e-9)


class Vocoder(nn.Module):
    """HiFi-GAN's generator (Kong et al. 2020), BigVGAN's activations, and a discriminator of periods."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = weight_norm(nn.Conv1d(6, WIDTH, 7, padding=3))
        self.up = weight_norm(nn.ConvTranspose1d(WIDTH, WIDTH, 8, 4, 2))
        self.blocks = nn.ModuleList(weight_norm(nn.Conv1d(WIDTH, WIDTH, 3, padding=d, dilation=d)) for d in (1, 3))
        self.acts = nn.ModuleList(Snake(WIDTH) for _ in range(3))
        self.leave = weight_norm(nn.Conv1d(WIDTH, 1, 7, padding=3))
        self.judge = nn.Sequential(nn.Conv2d(1, 4, (5, 1), (3, 1), (2, 0)), nn.LeakyReLU(0.1), nn.Conv2d(4, 1, (3, 1)))

    def forward(self, mel: Tensor, sound: Tensor) -> Output:
        x = self.up(self.acts[0](self.enter(mel)))
        x = x + sum(block(act(x)) for block, act in zip(self.blocks, self.acts[1:], strict=True)) / 2
        made = torch.tanh(self.leave(F.leaky_relu(x)))[:, 0]
        padded = F.pad(made, (0, 2), "reflect").view(made.shape[0], 1, -1, 3)
        return {"loss": ((self.judge(padded) - 1) ** 2).mean() + 45 * F.l1_loss(made, sound)}


class Conformer(nn.Module):
    """Gulati et al. 2020: half a feed-forward, relative attention, a gated convolution, the other half."""

    def __init__(self, heads: int = 2, time: int = 10) -> None:
        super().__init__()
        self.heads = heads
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.SiLU(), nn.Linear(16, WIDTH)) for _ in range(2)
        )
        self.norm, self.conv_norm, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.place = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.u, self.v = (
            nn.Parameter(torch.randn(heads, 1, WIDTH // heads)),
            nn.Parameter(torch.randn(heads, 1, WIDTH // heads)),
        )
        self.out = nn.Linear(WIDTH, WIDTH)
        self.enter, self.leave = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.depth, self.batch = nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH), nn.BatchNorm1d(WIDTH)
        self.register_buffer("waves", torch.randn(2 * time - 1, WIDTH), persistent=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def _attention(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = self.place(self.waves).view(-1, self.heads, width // self.heads).transpose(0, 1)
        shifted = F.pad((q + self.v) @ p.transpose(-1, -2), (1, 0)).view(batch, self.heads, 2 * time, time)
        shifted = shifted[:, :, 1:].reshape(batch, self.heads, time, 2 * time - 1)[..., :time]
        scores = ((q + self.u) @ k.transpose(-1, -2) + shifted) / (width // self.heads) ** 0.5
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, time, width))

    def forward(self, series: Tensor) -> Output:
        x = series + 0.5 * self.feeds[0](series)
        x = x + self._attention(self.norm(x))
        h = F.glu(self.enter(self.conv_norm(x).transpose(1, 2)), 1)
        x = x + self.leave(F.silu(self.batch(self.depth(h)))).transpose(1, 2)
        return {"logits": self.head(self.last(x + 0.5 * self.feeds[1](x)))}


class Speaker(nn.Module):
    """X-vectors with attentive statistics (Okabe et al. 2018) and an additive angular margin (Deng et al. 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Sequential(nn.Conv1d(WIDTH, 16, 3, dilation=2), nn.ReLU(), nn.BatchNorm1d(16))
        self.weigh = nn.Sequential(nn.Conv1d(16, 8, 1), nn.Tanh(), nn.Conv1d(8, 16, 1, bias=False))
        self.embed = nn.Linear(32, WIDTH)
        self.centres = nn.Parameter(torch.randn(CLASSES, WIDTH))

    def forward(self, series: Tensor, who: Tensor) -> Output:
        x = self.frames(series.transpose(1, 2))
        share = torch.softmax(self.weigh(x), -1)
        mean = (x * share).sum(-1)
        spread = torch.sqrt(((x**2 * share).sum(-1) - mean**2).clamp(min=1e-5))
        cosine = F.linear(F.normalize(self.embed(torch.cat([mean, spread], 1))), F.normalize(self.centres))
        sine = torch.sqrt((1 - cosine**2).clamp(1e-6, 1))
        moved = cosine * math.cos(0.2) - sine * math.sin(0.2)
        right = F.one_hot(who, CLASSES).bool()
        return {"loss": F.cross_entropy(10 * torch.where(right, moved, cosine), who)}


FAMILIES: tuple[Family, ...] = (
    brief("encodec", EnCodec, drawn(sound=normal(BATCH, SAMPLES))),
    brief("conv_tasnet", ConvTasNet, drawn(mixed=normal(BATCH, SAMPLES), speakers=normal(BATCH, 2, SAMPLES))),
    brief("vocoder", Vocoder, drawn(mel=normal(BATCH, 6, 10), sound=normal(BATCH, 40))),
    brief("conformer", Conformer, drawn(series=normal(BATCH, 10, WIDTH)), classes(CLASSES, BATCH, 10)),
    brief("speaker", Speaker, lambda seed: {
        **drawn(series=normal(BATCH, 12, WIDTH))(seed), "who": classes(CLASSES, BATCH)(seed)["labels"],
    }),
)  # fmt: skip
