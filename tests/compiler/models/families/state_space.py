"""Sequences by recurrences that are no LSTM: state-space models, linear attention, convolutions over time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..family import Family, brief, classes, drawn, integers, normal

BATCH, TIME, WIDTH, CLASSES = 2, 12, 8, 5
Output = dict[str, Tensor]


class Mamba(nn.Module):
    """Gu & Dao 2023: a selective scan, its steps written out."""

    def __init__(self, states: int = 4, rank: int = 2) -> None:
        super().__init__()
        inner = 2 * WIDTH
        self.states, self.rank = states, rank
        self.norm = nn.LayerNorm(WIDTH)
        self.enter = nn.Linear(WIDTH, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.select = nn.Linear(inner, rank + 2 * states, bias=False)
        self.step = nn.Linear(rank, inner)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        x, gate = self.enter(self.norm(series)).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., : series.shape[1]]).transpose(1, 2)
        rate, b, c = self.select(x).split([self.rank, self.states, self.states], -1)
        rate = F.softplus(self.step(rate))
        decay = torch.exp(rate[..., None] * -torch.exp(self.log_a))
        drive = rate[..., None] * b[:, :, None] * x[..., None]
        state, found = torch.zeros_like(drive[:, 0]), []
        for t in range(series.shape[1]):
            state = decay[:, t] * state + drive[:, t]
            found.append((state * c[:, t, None]).sum(-1))
        y = torch.stack(found, 1) + x * self.skip
        return {"logits": self.head(series + self.leave(y * F.silu(gate)))}


class S4D(nn.Module):
    """Gu et al. 2022: a diagonal complex state-space layer as a convolution, its kernel by complex numbers."""

    def __init__(self, states: int = 4) -> None:
        super().__init__()
        self.log_step = nn.Parameter(torch.rand(WIDTH) * 2 - 3)
        self.c = nn.Parameter(torch.randn(WIDTH, states, 2))
        self.log_real = nn.Parameter(torch.log(0.5 * torch.ones(WIDTH, states)))
        self.imaginary = nn.Parameter(math.pi * torch.arange(states).repeat(WIDTH, 1).float())
        self.skip = nn.Parameter(torch.randn(WIDTH))
        self.mix = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.head = nn.Linear(WIDTH, CLASSES)

    def kernel(self, length: int) -> Tensor:
        """2 Re(C (exp(dA) - 1) / A · exp(dA)^t), [width, length]."""
        step = torch.exp(self.log_step)
        a = torch.complex(-torch.exp(self.log_real), self.imaginary)
        da = a * step[:, None]
        c = torch.view_as_complex(self.c) * (torch.exp(da) - 1.0) / a
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(da[..., None] * torch.arange(length))).real

    def forward(self, series: Tensor) -> Output:
        u = series.transpose(1, 2)
        length = u.shape[-1]
        spectrum = torch.fft.rfft(self.kernel(length), n=2 * length) * torch.fft.rfft(u, n=2 * length)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length] + u * self.skip[:, None]
        return {"logits": self.head(F.glu(self.mix(F.gelu(y)), 1).transpose(1, 2))}


class S5(nn.Module):
    """Smith et al. 2023: one state for all channels, real and imaginary parts apart, its scan written out."""

    def __init__(self, states: int = 6) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(states))
        self.turn = nn.Parameter(torch.rand(states) * math.pi)
        self.b = nn.Parameter(torch.randn(2, states, WIDTH) / WIDTH**0.5)
        self.c = nn.Parameter(torch.randn(2, WIDTH, states) / states**0.5)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        size = torch.exp(-F.softplus(self.decay))
        real, imaginary = size * torch.cos(self.turn), size * torch.sin(self.turn)
        drive = series @ self.b[0].T, series @ self.b[1].T
        x, y = torch.zeros_like(drive[0][:, 0]), torch.zeros_like(drive[0][:, 0])
        found = []
        for t in range(series.shape[1]):
            x, y = real * x - imaginary * y + drive[0][:, t], real * y + imaginary * x + drive[1][:, t]
            found.append(x @ self.c[0].T - y @ self.c[1].T)
        return {"logits": self.head(F.gelu(torch.stack(found, 1)) + series)}


class RWKV(nn.Module):
    """Peng et al. 2023: time mixing with the numerically safe WKV, and channel mixing."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(5, WIDTH))
        self.decay, self.bonus = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.receptance, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.receptance2 = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key2, self.value2 = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def _mixed(self, x: Tensor, which: int) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        return x * self.mix[which] + before * (1 - self.mix[which])

    def _wkv(self, k: Tensor, v: Tensor) -> Tensor:
        w = -torch.exp(self.decay)
        top, bottom = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
        most, found = torch.full_like(k[:, 0], -1e38), []
        for t in range(k.shape[1]):
            here = torch.maximum(most, self.bonus + k[:, t])
            old, new = torch.exp(most - here), torch.exp(self.bonus + k[:, t] - here)
            found.append((old * top + new * v[:, t]) / (old * bottom + new))
            then = torch.maximum(most + w, k[:, t])
            old, new = torch.exp(most + w - then), torch.exp(k[:, t] - then)
            top, bottom, most = old * top + new * v[:, t], old * bottom + new, then
        return torch.stack(found, 1)

    def forward(self, series: Tensor) -> Output:
        x = self.norm(series)
        gate = torch.sigmoid(self.receptance(self._mixed(x, 0)))
        h = series + self.output(gate * self._wkv(self.key(self._mixed(x, 1)), self.value(self._mixed(x, 2))))
        x = self.norm2(h)
        gate = torch.sigmoid(self.receptance2(self._mixed(x, 3)))
        h = h + gate * self.value2(torch.relu(self.key2(self._mixed(x, 4))) ** 2)
        return {"logits": self.head(h)}


class RetNet(nn.Module):
    """Sun et al. 2023: retention in parallel form, with a decay for each head and group norm."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.gate, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(5))
        self.norm = nn.GroupNorm(heads, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        batch, time, width = series.shape
        q, k, v = (part(series).view(batch, time, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        gamma = 1 - torch.exp2(-5.0 - torch.arange(self.heads))
        apart = torch.arange(time)[:, None] - torch.arange(time)
        decay = torch.where(apart >= 0, gamma[:, None, None] ** apart.clamp(min=0), 0.0)
        kept = (q @ k.transpose(-1, -2) * decay / (width // self.heads) ** 0.5) @ v
        y = self.norm(kept.transpose(1, 2).reshape(batch * time, width)).view(batch, time, width)
        return {"logits": self.head(self.out(F.silu(self.gate(series)) * y))}


class Hyena(nn.Module):
    """Poli et al. 2023: gates and long convolutions by FFT, whose kernels a small network makes of the position."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, 3 * WIDTH)
        self.short = nn.Conv1d(3 * WIDTH, 3 * WIDTH, 3, padding=2, groups=3 * WIDTH)
        self.first, self.second = nn.Linear(5, 16), nn.Linear(16, WIDTH)
        self.skip = nn.Parameter(torch.randn(WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        time = series.shape[1]
        u = self.short(self.enter(series).transpose(1, 2))[..., :time]
        a, b, v = u.chunk(3, 1)
        place = torch.linspace(0, 1, time)[:, None]
        waves = torch.cat([place, torch.sin(place * torch.arange(1, 5) * math.pi)], 1)
        kernel = (self.second(torch.sin(self.first(waves))) * torch.exp(-3 * place)).T
        x = a * v
        y = torch.fft.irfft(torch.fft.rfft(x, n=2 * time) * torch.fft.rfft(kernel, n=2 * time), n=2 * time)
        return {"logits": self.head((b * (y[..., :time] + x * self.skip[:, None])).transpose(1, 2))}


class SLSTM(nn.Module):
    """Beck et al. 2024 (xLSTM): exponential gates, stabilised."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        cell = count = hidden = torch.zeros_like(series[:, 0])
        most, found = torch.zeros_like(series[:, 0]), []
        for t in range(series.shape[1]):
            z, i, f, o = (self.enter(series[:, t]) + self.again(hidden)).chunk(4, -1)
            f = F.logsigmoid(f)
            now = torch.maximum(f + most, i)
            keep, add = torch.exp(f + most - now), torch.exp(i - now)
            cell, count, most = keep * cell + add * torch.tanh(z), keep * count + add, now
            hidden = torch.sigmoid(o) * cell / count
            found.append(hidden)
        return {"logits": self.head(torch.stack(found, 1))}


class QRNN(nn.Module):
    """Bradbury et al. 2017: gates by convolution, then a pooling recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Conv1d(WIDTH, 3 * WIDTH, 2)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, series: Tensor) -> Output:
        z, f, o = self.gates(F.pad(series.transpose(1, 2), (1, 0))).chunk(3, 1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        state, found = torch.zeros_like(z[..., 0]), []
        for t in range(z.shape[-1]):
            state = f[..., t] * state + (1 - f[..., t]) * z[..., t]
            found.append(o[..., t] * state)
        return {"logits": self.head(torch.stack(found, 1))}


class ConvLSTM(nn.Module):
    """Shi et al. 2015: predicts the next image of a series."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(1 + width, 4 * width, 3, padding=1)
        self.peep = nn.Parameter(torch.randn(3, width, 1, 1) * 0.1)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, film: Tensor) -> Output:
        batch, time, height, width = film.shape
        h = c = torch.zeros(batch, self.width, height, width)
        lost = torch.zeros(())
        for t in range(time - 1):
            i, f, o, g = self.gates(torch.cat([film[:, t, None], h], 1)).chunk(4, 1)
            i, f = torch.sigmoid(i + self.peep[0] * c), torch.sigmoid(f + self.peep[1] * c)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o + self.peep[2] * c) * torch.tanh(c)
            lost = lost + F.mse_loss(self.out(h)[:, 0], film[:, t + 1])
        return {"loss": lost / (time - 1)}


class Seq2Seq(nn.Module):
    """GRU encoder and decoder with additive attention (Bahdanau et al. 2015), teacher forcing."""

    def __init__(self, vocabulary: int = 11) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, WIDTH), nn.Embedding(vocabulary, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(3 * WIDTH, WIDTH)
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.score = nn.Linear(WIDTH, 1, bias=False)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Output:
        memory, last = self.encoder(self.source(source))
        hidden, keys, found = torch.tanh(last.sum(0)), self.key(memory), []
        for t in range(target.shape[1] - 1):
            weights = torch.softmax(self.score(torch.tanh(keys + self.query(hidden)[:, None])).squeeze(-1), -1)
            context = torch.einsum("bt,btf->bf", weights, memory)
            hidden = self.cell(torch.cat([self.target(target[:, t]), context], -1), hidden)
            found.append(self.head(hidden))
        return {"loss": F.cross_entropy(torch.stack(found, 2), target[:, 1:], label_smoothing=0.1)}


class Tagger(nn.Module):
    """Two bidirectional LSTM layers under a conditional random field with the log-partition by the forward algorithm
    (Lample et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(WIDTH, WIDTH, num_layers=2, bidirectional=True, batch_first=True)
        self.emit = nn.Linear(2 * WIDTH, CLASSES)
        self.move = nn.Parameter(torch.randn(CLASSES, CLASSES))

    def forward(self, series: Tensor, tags: Tensor) -> Output:
        scores = self.emit(self.layers(series)[0])
        right = scores.gather(2, tags[..., None]).sum((1, 2)) + self.move[tags[:, :-1], tags[:, 1:]].sum(1)
        alpha = scores[:, 0]
        for t in range(1, series.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.move, 1) + scores[:, t]
        return {"loss": (torch.logsumexp(alpha, 1) - right).mean()}


class WaveNet(nn.Module):
    """van den Oord et al. 2016: dilated causal convolutions with gates and skips."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.enter = nn.Conv1d(WIDTH, WIDTH, 1)
        self.gates = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=2**i)) for i in range(layers)
        )
        self.outs = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 1) for _ in range(layers))
        self.head = nn.Conv1d(WIDTH, CLASSES, 1)

    def forward(self, series: Tensor) -> Output:
        x, total = self.enter(series.transpose(1, 2)), torch.zeros(())
        for level, (gate, out) in enumerate(zip(self.gates, self.outs, strict=True)):
            a, b = gate(F.pad(x, (2**level, 0))).chunk(2, 1)
            more, skip = out(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + skip
        return {"logits": self.head(torch.relu(total)).transpose(1, 2)}


SERIES = drawn(series=normal(BATCH, TIME, WIDTH))
EACH = classes(CLASSES, BATCH, TIME)
FAMILIES: tuple[Family, ...] = (
    *(
        brief(name, make, SERIES, EACH)
        for name, make in {
            "mamba": Mamba,
            "s4d": S4D,
            "s5": S5,
            "rwkv": RWKV,
            "retnet": RetNet,
            "hyena": Hyena,
            "slstm": SLSTM,
            "qrnn": QRNN,
            "wavenet": WaveNet,
        }.items()
    ),
    brief("conv_lstm", ConvLSTM, drawn(film=normal(BATCH, 5, 6, 7))),
    brief("seq2seq", Seq2Seq, drawn(source=integers(11, BATCH, 7), target=integers(11, BATCH, 6))),
    brief("bilstm_crf", Tagger, drawn(series=normal(BATCH, 7, WIDTH), tags=integers(CLASSES, BATCH, 7))),
)
