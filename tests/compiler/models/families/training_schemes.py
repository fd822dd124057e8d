"""Ways to train rather than networks: two networks against each other, teachers, energies, experts, networks that make
weights. Each computes its own loss."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from ..family import Family, brief, classes, drawn, integers, normal, uniform

BATCH, WIDTH, CLASSES = 4, 8, 3
Output = dict[str, Tensor]


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.GELU()]
    return nn.Sequential(*layers[:-1])


class SpectralCritic(nn.Module):
    """A discriminator with spectral norms (Miyato et al. 2018) and the hinge loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            spectral_norm(nn.Linear(WIDTH, 16)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(16, 1))
        )

    def forward(self, real: Tensor, made: Tensor) -> Output:
        return {"loss": F.relu(1 - self.body(real)).mean() + F.relu(1 + self.body(made)).mean()}


class GradientPenalty(nn.Module):
    """Gulrajani et al. 2017: the critic's gradient between real and made is to have length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = mlp(WIDTH, 16, 1)

    def forward(self, real: Tensor, made: Tensor, share: Tensor) -> Output:
        between = (share * real + (1 - share) * made).requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        return {"loss": self.critic(made).mean() - self.critic(real).mean() + 10 * penalty}


class BYOL(nn.Module):
    """Grill et al. 2020: one view predicts what a slow copy of the network makes of another."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.slow, self.predict = mlp(WIDTH, 16, 8), mlp(WIDTH, 16, 8).requires_grad_(False), mlp(8, 16, 8)

    def forward(self, first: Tensor, second: Tensor) -> Output:
        with torch.no_grad():
            wanted = F.normalize(self.slow(second), dim=-1)
        return {"loss": 2 - 2 * (F.normalize(self.predict(self.online(first)), dim=-1) * wanted).sum(-1).mean()}


class DINO(nn.Module):
    """Caron et al. 2021: the teacher's answer, centred and sharpened, detached."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = mlp(WIDTH, 16, 8), mlp(WIDTH, 16, 8).requires_grad_(False)
        self.register_buffer("centre", torch.randn(8) * 0.1)

    def forward(self, first: Tensor, second: Tensor) -> Output:
        wanted = torch.softmax((self.teacher(second) - self.centre) / 0.1, -1).detach()
        return {"loss": -(wanted * torch.log_softmax(self.student(first) / 0.2, -1)).sum(-1).mean()}


class VICReg(nn.Module):
    """Bardes et al. 2022."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(mlp(WIDTH, 16), nn.GELU(), nn.Linear(16, 8, bias=False))

    def forward(self, first: Tensor, second: Tensor) -> Output:
        a, b = self.body(first), self.body(second)
        total = 25 * F.mse_loss(a, b)
        for z in (a, b):
            total = total + 25 * F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean()
            z = z - z.mean(0)
            covariance = z.T @ z / (z.shape[0] - 1)
            total = total + (covariance - torch.diag(torch.diag(covariance))).pow(2).sum() / z.shape[1]
        return {"loss": total}


class PPO(nn.Module):
    """Schulman et al. 2017: a clipped ratio of policies, a value, an entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.policy, self.value = mlp(WIDTH, 16), nn.Linear(16, CLASSES), nn.Linear(16, 1)

    def forward(self, state: Tensor, action: Tensor, before: Tensor, advantage: Tensor, returned: Tensor) -> Output:
        h = torch.tanh(self.body(state))
        chosen = torch.distributions.Categorical(logits=self.policy(h))
        ratio = torch.exp(chosen.log_prob(action) - torch.log(before * 0.5 + 0.2))
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return {"loss": 0.5 * F.mse_loss(self.value(h)[:, 0], returned) - gain - 0.01 * chosen.entropy().mean()}


class DQN(nn.Module):
    """A duelling network with a slow target (Wang et al. 2016), by Huber's loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.slow = mlp(WIDTH, 16, 1 + CLASSES), mlp(WIDTH, 16, 1 + CLASSES)

    @staticmethod
    def _q(x: Tensor) -> Tensor:
        return x[:, :1] + x[:, 1:] - x[:, 1:].mean(1, keepdim=True)

    def forward(self, state: Tensor, action: Tensor, reward: Tensor, then: Tensor) -> Output:
        with torch.no_grad():
            best = self._q(self.net(then)).argmax(1, keepdim=True)
            wanted = reward + 0.9 * self._q(self.slow(then)).gather(1, best)[:, 0]
        return {"loss": F.smooth_l1_loss(self._q(self.net(state)).gather(1, action[:, None])[:, 0], wanted)}


class SquashedPolicy(nn.Module):
    """The actor of soft actor-critic (Haarnoja et al. 2018): a squashed normal whose noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = mlp(WIDTH, 16, 4), mlp(WIDTH + 2, 16, 1)

    def forward(self, state: Tensor, noise: Tensor) -> Output:
        mean, log_spread = self.actor(state).chunk(2, -1)
        normal_ = torch.distributions.Normal(mean, log_spread.clamp(-5, 2).exp())
        raw = mean + normal_.stddev * noise
        likely = normal_.log_prob(raw) - 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return {"loss": (0.2 * likely.sum(-1) - self.critic(torch.cat([state, torch.tanh(raw)], -1))[:, 0]).mean()}


class DPO(nn.Module):
    """Rafailov et al. 2023: two answers, a frozen reference."""

    def __init__(self, vocabulary: int = 9) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Embedding(vocabulary, WIDTH), mlp(WIDTH, 16, vocabulary))
        self.reference = nn.Sequential(nn.Embedding(vocabulary, WIDTH), mlp(WIDTH, 16, vocabulary)).requires_grad_(
            False
        )

    @staticmethod
    def _likely(model: nn.Module, tokens: Tensor) -> Tensor:
        return torch.log_softmax(model(tokens[:, :-1]), -1).gather(2, tokens[:, 1:, None])[..., 0].sum(1)

    def forward(self, better: Tensor, worse: Tensor) -> Output:
        gains = [self._likely(self.policy, x) - self._likely(self.reference, x).detach() for x in (better, worse)]
        return {"loss": -F.logsigmoid(0.5 * (gains[0] - gains[1])).mean()}


class HyperNetwork(nn.Module):
    """Ha et al. 2017: one network makes another's weights, for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = mlp(4, 16, WIDTH * CLASSES + CLASSES)

    def forward(self, features: Tensor, task: Tensor) -> Output:
        made = self.maker(task)
        weight, bias = made[:, : WIDTH * CLASSES].view(-1, CLASSES, WIDTH), made[:, WIDTH * CLASSES :]
        return {"logits": torch.bmm(weight, features[:, :, None])[..., 0] + bias}


class Experts(nn.Module):
    """The two best of four experts by a softmax gate, with a loss that spreads the load (Shazeer et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.first, self.second = (
            nn.Parameter(torch.randn(4, WIDTH, 16) * 0.3),
            nn.Parameter(torch.randn(4, 16, CLASSES) * 0.3),
        )

    def forward(self, features: Tensor, labels: Tensor) -> Output:
        share = torch.softmax(self.gate(features), -1)
        best, chosen = share.topk(2, -1)
        h = torch.relu(torch.einsum("bi,bkio->bko", features, self.first[chosen]))
        found = torch.einsum("bki,bkio->bko", h, self.second[chosen])
        logits = (found * (best / best.sum(-1, keepdim=True))[..., None]).sum(1)
        load = F.one_hot(chosen, 4).float().mean((0, 1))
        return {"loss": F.cross_entropy(logits, labels) + 0.1 * (load * share.mean(0)).sum() * 4}


class QuantisedAware(nn.Module):
    """Weights and activations of 4 bits, straight-through gradients, a learned step (Esser et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 16), nn.Linear(16, CLASSES)
        self.steps = nn.Parameter(torch.tensor([0.1, 0.2, 0.1]))

    @staticmethod
    def _rounded(x: Tensor, step: Tensor) -> Tensor:
        scaled = (x / step).clamp(-8, 7)
        return (scaled + (scaled.round() - scaled).detach()) * step

    def forward(self, features: Tensor) -> Output:
        h = F.relu(F.linear(features, self._rounded(self.first.weight, self.steps[0]), self.first.bias))
        h = self._rounded(h, self.steps[1])
        return {"logits": F.linear(h, self._rounded(self.second.weight, self.steps[2]), self.second.bias)}


class Orthogonal(nn.Module):
    """A recurrent network whose matrix is kept orthogonal by a Cayley map."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(2, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.skew = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)

    def forward(self, series: Tensor) -> Output:
        a = self.skew - self.skew.T
        turn = torch.eye(WIDTH) + a + a @ a / 2 + a @ a @ a / 6
        h = torch.zeros(series.shape[0], WIDTH)
        for t in range(series.shape[1]):
            h = torch.tanh(self.enter(series[:, t]) + h @ turn)
        return {"logits": self.head(h)}


class Evidential(nn.Module):
    """Sensoy et al. 2018: a Dirichlet over classes, its expected squared error."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(WIDTH, 16, CLASSES)

    def forward(self, features: Tensor, labels: Tensor) -> Output:
        alpha = F.softplus(self.body(features)) + 1
        total = alpha.sum(-1, keepdim=True)
        share = alpha / total
        wrong = ((F.one_hot(labels, CLASSES) - share) ** 2 + share * (1 - share) / (total + 1)).sum(-1)
        return {"loss": wrong.mean()}


class Sinkhorn(nn.Module):
    """Entropic optimal transport between two sets, twenty rounds (Cuturi 2013)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(mlp(WIDTH, 16), nn.GELU(), nn.Linear(16, 4, bias=False))

    def forward(self, first: Tensor, second: Tensor) -> Output:
        cost = torch.cdist(self.body(first), self.body(second)) ** 2
        f, g = torch.zeros(cost.shape[0]), torch.zeros(cost.shape[1])
        for _ in range(20):
            f = -torch.logsumexp((g[None] - cost) / 0.5 - math.log(cost.shape[1]), 1) * 0.5
            g = -torch.logsumexp((f[:, None] - cost) / 0.5 - math.log(cost.shape[0]), 0) * 0.5
        return {"loss": f.mean() + g.mean()}


VECTOR, LABELS = normal(BATCH, WIDTH), integers(CLASSES, BATCH)
FAMILIES: tuple[Family, ...] = (
    brief("spectral_critic", SpectralCritic, drawn(real=VECTOR, made=VECTOR)),
    brief("gradient_penalty", GradientPenalty, drawn(real=VECTOR, made=VECTOR, share=uniform(BATCH, 1))),
    brief("byol", BYOL, drawn(first=VECTOR, second=VECTOR)),
    brief("dino", DINO, drawn(first=VECTOR, second=VECTOR)),
    brief("vicreg", VICReg, drawn(first=VECTOR, second=VECTOR)),
    brief(
        "ppo",
        PPO,
        drawn(state=VECTOR, action=LABELS, before=uniform(BATCH), advantage=normal(BATCH), returned=normal(BATCH)),
    ),
    brief("dqn", DQN, drawn(state=VECTOR, action=LABELS, reward=normal(BATCH), then=VECTOR)),
    brief("squashed_policy", SquashedPolicy, drawn(state=VECTOR, noise=normal(BATCH, 2))),
    brief("dpo", DPO, drawn(better=integers(9, BATCH, 6), worse=integers(9, BATCH, 6))),
    brief("hypernetwork", HyperNetwork, drawn(features=VECTOR, task=normal(BATCH, 4)), classes(CLASSES, BATCH)),
    brief("experts", Experts, drawn(features=VECTOR, labels=LABELS)),
    brief("quantisation_aware", QuantisedAware, drawn(features=VECTOR), classes(CLASSES, BATCH)),
    brief("cayley_rnn", Orthogonal, drawn(series=normal(BATCH, 6, 2)), classes(CLASSES, BATCH)),
    brief("evidential", Evidential, drawn(features=VECTOR, labels=LABELS)),
    brief("sinkhorn", Sinkhorn, drawn(first=VECTOR, second=VECTOR)),
)
