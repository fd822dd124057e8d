"""Models of functions: splines on edges, normalising flows, physics-informed networks, operators, differential
equations. Most compute their own loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..family import Family, brief, classes, drawn, mse, normal, regression, uniform

BATCH, WIDTH, CLASSES = 4, 6, 3
Output = dict[str, Tensor]


class Spline(nn.Module):
    """A layer of a Kolmogorov-Arnold network: a cubic B-spline on each edge beside a SiLU (Liu et al. 2024)."""

    grid: Tensor

    def __init__(self, inputs: int, outputs: int, cells: int = 4, order: int = 3) -> None:
        super().__init__()
        self.order = order
        self.register_buffer("grid", torch.arange(-order, cells + order + 1) * (2 / cells) - 1)
        self.base = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.coefficients = nn.Parameter(torch.randn(outputs, inputs, cells + order) * 0.3)

    def _basis(self, x: Tensor) -> Tensor:
        """Cox-de Boor: [batch, inputs, cells + order]."""
        x, grid = x[..., None], self.grid
        found = ((x >= grid[:-1]) & (x < grid[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - grid[: -(k + 1)]) / (grid[k:-1] - grid[: -(k + 1)]) * found[..., :-1]
            found = left + (grid[k + 1 :] - x) / (grid[k + 1 :] - grid[1:-k]) * found[..., 1:]
        return found

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.silu(x), self.base) + torch.einsum("bic,oic->bo", self._basis(x), self.coefficients)


class KAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Spline(WIDTH, 8), Spline(8, CLASSES))

    def forward(self, features: Tensor) -> Output:
        return {"logits": self.layers(torch.tanh(features))}


class ChebyshevKAN(nn.Module):
    """Edges as Chebyshev polynomials of arc cosines."""

    degrees: Tensor

    def __init__(self, degree: int = 4) -> None:
        super().__init__()
        self.register_buffer("degrees", torch.arange(degree + 1).float())
        self.first = nn.Parameter(torch.randn(WIDTH, 8, degree + 1) * 0.3)
        self.second = nn.Parameter(torch.randn(8, CLASSES, degree + 1) * 0.3)

    def forward(self, features: Tensor) -> Output:
        x = features
        for weight in (self.first, self.second):
            angle = torch.acos(torch.tanh(x).clamp(-0.99, 0.99))
            x = torch.einsum("bid,iod->bo", torch.cos(angle[..., None] * self.degrees), weight)
        return {"logits": x}


class RealNVP(nn.Module):
    """Dinh et al. 2017: affine couplings of alternating halves, trained by likelihood."""

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        half = WIDTH // 2
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(half, 16), nn.Tanh(), nn.Linear(16, WIDTH)) for _ in range(depth)
        )

    def forward(self, features: Tensor) -> Output:
        a, b = features.chunk(2, -1)
        volume = torch.zeros(features.shape[0])
        for net in self.nets:
            shift, scale = net(a).chunk(2, -1)
            scale = torch.tanh(scale)
            a, b = b * torch.exp(scale) + shift, a
            volume = volume + scale.sum(-1)
        prior = torch.distributions.Normal(torch.zeros(WIDTH), torch.ones(WIDTH))
        return {"loss": -(prior.log_prob(torch.cat([a, b], -1)).sum(-1) + volume).mean()}


class MAF(nn.Module):
    """Papamakarios et al. 2017: an autoregressive network of masked weights."""

    first: Tensor
    last: Tensor

    def __init__(self, hidden: int = 12) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, hidden), nn.Linear(hidden, 2 * WIDTH)
        order, inner = torch.arange(WIDTH), torch.arange(hidden) % (WIDTH - 1)
        self.register_buffer("first", (inner[:, None] >= order).float())
        self.register_buffer("last", (order[:, None] > inner).float().repeat(2, 1))

    def forward(self, features: Tensor) -> Output:
        h = torch.relu(F.linear(features, self.enter.weight * self.first, self.enter.bias))
        mean, log_scale = F.linear(h, self.leave.weight * self.last, self.leave.bias).chunk(2, -1)
        z = (features - mean) * torch.exp(-log_scale.clamp(-3, 3))
        return {"loss": (0.5 * z**2 + log_scale.clamp(-3, 3) + 0.5 * math.log(2 * math.pi)).sum(-1).mean()}


class Glow(nn.Module):
    """Kingma & Dhariwal 2018: norm of activations, an invertible 1 x 1 convolution and a coupling, on images."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.randn(channels, 1, 1) * 0.1)
        self.shift = nn.Parameter(torch.zeros(channels, 1, 1))
        self.turn = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, channels, 3, padding=1)
        )

    def forward(self, images: Tensor) -> Output:
        pixels = images.shape[2] * images.shape[3]
        x = images * torch.exp(self.log_scale) + self.shift
        x = F.conv2d(x, self.turn[:, :, None, None])
        a, b = x.chunk(2, 1)
        shift, scale = self.net(a).chunk(2, 1)
        scale = F.logsigmoid(scale + 2)
        z = torch.cat([a, b * torch.exp(scale) + shift], 1)
        volume = pixels * (self.log_scale.sum() + torch.linalg.slogdet(self.turn)[1]) + scale.sum((1, 2, 3))
        return {"loss": (0.5 * (z**2).sum((1, 2, 3)) - volume).mean() / pixels}


class SplineFlow(nn.Module):
    """Durkan et al. 2019: rational-quadratic splines, whose bins are searched for."""

    def __init__(self, bins: int = 5) -> None:
        super().__init__()
        self.bins = bins
        self.net = nn.Sequential(nn.Linear(WIDTH // 2, 16), nn.ReLU(), nn.Linear(16, WIDTH // 2 * (3 * bins + 1)))

    def forward(self, features: Tensor) -> Output:
        a, b = torch.tanh(features).chunk(2, -1)
        raw = self.net(a).view(*b.shape, 3 * self.bins + 1)
        widths, heights, slopes = raw.split([self.bins, self.bins, self.bins + 1], -1)
        widths, heights = (0.01 + 0.95 * torch.softmax(w, -1) for w in (widths, heights))
        x = F.pad(torch.cumsum(widths, -1), (1, 0)) / widths.sum(-1, keepdim=True) * 2 - 1
        y = F.pad(torch.cumsum(heights, -1), (1, 0)) / heights.sum(-1, keepdim=True) * 2 - 1
        slopes = F.softplus(slopes) + 1e-3
        place = torch.searchsorted(x[..., 1:-1].contiguous(), b[..., None].contiguous())
        left, right, low, high = (t.gather(-1, place + i)[..., 0] for t in (x, y) for i in (0, 1))
        begin, end = (slopes.gather(-1, place + i)[..., 0] for i in (0, 1))
        share = (b - left) / (right - left)
        steep = (high - low) / (right - left)
        mixed = share * (1 - share)
        below = steep + (begin + end - 2 * steep) * mixed
        z = low + (high - low) * (steep * share**2 + begin * mixed) / below
        slope = steep**2 * (end * share**2 + 2 * steep * mixed + begin * (1 - share) ** 2) / below**2
        return {"loss": (0.5 * (a**2 + z**2) - torch.log(slope)).sum(-1).mean()}


class VAE(nn.Module):
    """Kingma & Welling 2014: the noise is an input."""

    def __init__(self, latent: int = 3) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WIDTH, 16), nn.ELU(), nn.Linear(16, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 16), nn.ELU(), nn.Linear(16, WIDTH))

    def forward(self, features: Tensor, noise: Tensor) -> Output:
        mean, log_variance = self.encoder(features).chunk(2, -1)
        found = self.decoder(mean + torch.exp(0.5 * log_variance) * noise)
        surprise = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1)
        return {"loss": (((found - features) ** 2).sum(-1) + surprise).mean()}


class HeatPINN(nn.Module):
    """Raissi et al. 2019: u_t = u_xx, the derivatives by autograd inside the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x: Tensor, t: Tensor) -> Output:
        with torch.enable_grad():
            x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
            u = self.net(torch.cat([x, t], -1))
            u_t, u_x = torch.autograd.grad(u.sum(), [t, x], create_graph=True)
            (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        start = self.net(torch.cat([x, torch.zeros_like(t)], -1)) - torch.sin(math.pi * x)
        return {"loss": ((u_t - 0.1 * u_xx) ** 2).mean() + (start**2).mean()}


class PoissonPINN(nn.Module):
    """The same by functional transforms: a Laplacian as the trace of a Hessian."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 16), nn.Linear(16, 1)

    def u(self, place: Tensor) -> Tensor:
        return self.last(torch.sin(self.first(place)))[0]

    def forward(self, places: Tensor) -> Output:
        hessian = torch.func.vmap(torch.func.jacrev(torch.func.jacrev(self.u)))(places)
        off = hessian.diagonal(dim1=-2, dim2=-1).sum(-1) - torch.sin(places.sum(-1))
        return {"loss": (off**2).mean()}


class ForcesNet(nn.Module):
    """An energy of atoms' places whose negative gradient is compared with forces (as in interatomic potentials)."""

    centres: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 1))
        self.register_buffer("centres", torch.linspace(0.5, 4, 8))

    def forward(self, places: Tensor, energies: Tensor, forces: Tensor) -> Output:
        places = places.requires_grad_()
        apart = places[:, :, None] - places[:, None] + torch.eye(places.shape[1])[..., None]
        distance = (apart**2).sum(-1).sqrt()
        basis = torch.exp(-((distance[..., None] - self.centres) ** 2))
        energy = self.net(basis).mean((1, 2, 3))
        (slope,) = torch.autograd.grad(energy.sum(), places, create_graph=True)
        return {"loss": F.mse_loss(energy, energies) + F.mse_loss(-slope, forces)}


class DeepONet(nn.Module):
    """Lu et al. 2021: a branch for the function, a trunk for the place."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, 8))
        self.trunk = nn.Sequential(nn.Linear(1, 16), nn.GELU(), nn.Linear(16, 8))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, sensors: Tensor, places: Tensor) -> Tensor:
        return torch.einsum("bk,bpk->bp", self.branch(sensors), self.trunk(places[..., None])) + self.bias


class FNO(nn.Module):
    """Li et al. 2021: products with complex weights of the lowest frequencies."""

    def __init__(self, width: int = 6, modes: int = 3) -> None:
        super().__init__()
        self.modes = modes
        self.lift, self.drop = nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.weights = nn.Parameter(torch.randn(2, width, width, modes, 2) / width)
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(2))

    def forward(self, series: Tensor) -> Tensor:
        x = self.lift(series[:, None])
        for weight, local in zip(self.weights, self.local, strict=True):
            low = torch.fft.rfft(x)[..., : self.modes]
            low = torch.einsum("bim,iom->bom", low, torch.view_as_complex(weight))
            x = F.gelu(torch.fft.irfft(low, n=x.shape[-1]) + local(x))
        return self.drop(x)[:, 0]


class SIREN(nn.Module):
    """Sitzmann et al. 2020: sines of coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 16), nn.Linear(16, 16)])
        self.out = nn.Linear(16, 3)

    def forward(self, places: Tensor) -> Tensor:
        x = places
        for layer in self.layers:
            x = torch.sin(4.0 * layer(x))
        return self.out(x)


class NeuralODE(nn.Module):
    """Chen et al. 2018 with four steps of the classical Runge-Kutta method."""

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.field = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, features: Tensor) -> Output:
        x, h = features, 1 / self.steps
        for _ in range(self.steps):
            a = self.field(x)
            b = self.field(x + h / 2 * a)
            c = self.field(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + self.field(x + h * c))
        return {"logits": self.head(x)}


class NeRF(nn.Module):
    """Mildenhall et al. 2020: colours along rays, weighed by what they pass through."""

    bands: Tensor

    def __init__(self, bands: int = 3) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(bands) * math.pi)
        self.body = nn.Sequential(nn.Linear(6 * bands, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.density, self.colour = nn.Linear(24, 1), nn.Linear(24, 3)

    def forward(self, points: Tensor) -> Tensor:
        """[rays, samples, 3] -> colours [rays, 3]."""
        waves = (points[..., None] * self.bands).flatten(-2)
        h = self.body(torch.cat([torch.sin(waves), torch.cos(waves)], -1))
        alpha = 1 - torch.exp(-F.softplus(self.density(h)) * 0.2)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return (alpha * through * torch.sigmoid(self.colour(h))).sum(1)


class ScoreNet(nn.Module):
    """Denoising score matching with Fourier features of the noise level (Song et al. 2021)."""

    waves: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("waves", torch.randn(4))
        self.net = nn.Sequential(nn.Linear(WIDTH + 8, 24), nn.SiLU(), nn.Linear(24, WIDTH))

    def forward(self, features: Tensor, noise: Tensor, time: Tensor) -> Output:
        spread = torch.sqrt((25.0 ** (2 * time) - 1) / (2 * math.log(25.0)))
        waves = time * self.waves * 2 * math.pi
        given = torch.cat([features + spread * noise, torch.sin(waves), torch.cos(waves)], -1)
        return {"loss": ((self.net(given) / spread * spread + noise) ** 2).sum(-1).mean()}


FEATURES = drawn(features=normal(BATCH, WIDTH))
LABELS = classes(CLASSES, BATCH)


def _fitted(name: str, make: type[nn.Module], output: tuple[int, ...], **inputs: tuple[int, ...]) -> Family:
    """Trained on the squared difference from given outputs."""
    batch = drawn(**{key: uniform(*shape) for key, shape in inputs.items()})
    return brief(name, make, batch, regression(*output), loss="mse", criterion=mse)


FAMILIES: tuple[Family, ...] = (
    brief("kan", KAN, FEATURES, LABELS),
    brief("chebyshev_kan", ChebyshevKAN, FEATURES, LABELS),
    brief("real_nvp", RealNVP, FEATURES),
    brief("maf", MAF, FEATURES),
    brief("glow", Glow, drawn(images=normal(BATCH, 4, 5, 5))),
    brief("spline_flow", SplineFlow, FEATURES),
    brief("vae", VAE, drawn(features=normal(BATCH, WIDTH), noise=normal(BATCH, 3))),
    brief("heat_pinn", HeatPINN, drawn(x=uniform(8, 1), t=uniform(8, 1))),
    brief("poisson_pinn", PoissonPINN, drawn(places=uniform(8, 2))),
    brief("forces", ForcesNet, drawn(places=normal(BATCH, 5, 3), energies=normal(BATCH), forces=normal(BATCH, 5, 3))),
    _fitted("deep_o_net", DeepONet, (BATCH, 7), sensors=(BATCH, WIDTH), places=(BATCH, 7)),
    _fitted("fno", FNO, (BATCH, 16), series=(BATCH, 16)),
    _fitted("siren", SIREN, (16, 3), places=(16, 2)),
    brief("neural_ode", NeuralODE, FEATURES, LABELS),
    _fitted("nerf", NeRF, (BATCH, 3), points=(BATCH, 6, 3)),
    brief("score_net", ScoreNet, drawn(features=normal(8, WIDTH), noise=normal(8, WIDTH), time=uniform(8, 1))),
)
