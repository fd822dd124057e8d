"""Point clouds: sets of places in space, [batch, points, 3]."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from ..family import Family, brief, classes, drawn, normal, uniform

BATCH, POINTS, CLASSES = 2, 16, 4
Output = dict[str, Tensor]


def shared(*widths: int) -> nn.Sequential:
    """The same layers for every point, [batch, channels, points]."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    """Qi et al. 2017: a learned rotation, shared layers, the maximum over points."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.turn = shared(3, 16), nn.Linear(16, 9)
        self.body, self.head = shared(3, 16, 32), nn.Linear(32, CLASSES)

    def forward(self, points: Tensor) -> Output:
        turn = self.turn(self.look(points.transpose(1, 2)).amax(2)).view(-1, 3, 3) + torch.eye(3)
        found = self.body(torch.bmm(points, turn).transpose(1, 2)).max(2).values
        skew = torch.bmm(turn, turn.transpose(1, 2)) - torch.eye(3)
        return {"logits": self.head(found) + 0.001 * torch.linalg.matrix_norm(skew)[:, None]}


class PointNet2(nn.Module):
    """Qi et al. 2017: points in given groups, layers within each, layers over all groups; then back to the points by
    distances (feature propagation)."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = shared(6, 16), shared(19, 32)
        self.back, self.head = shared(35, 16), nn.Linear(16, CLASSES)

    def forward(self, points: Tensor, centres: Tensor, groups: Tensor) -> Output:
        """centres [batch, groups] and groups [batch, groups, k]: numbers of points"""
        batch, count, k = groups.shape
        middle = points.gather(1, centres[..., None].expand(-1, -1, 3))
        members = points.gather(1, groups.reshape(batch, -1, 1).expand(-1, -1, 3)).view(batch, count, k, 3)
        local = torch.cat([members - middle[:, :, None], members], -1).flatten(1, 2).transpose(1, 2)
        found = self.near(local).view(batch, 16, count, k).amax(-1)
        high = self.far(torch.cat([found, middle.transpose(1, 2)], 1))
        apart = torch.cdist(points, middle)
        nearest, index = apart.topk(3, largest=False)
        share = 1 / (nearest + 1e-3)
        share = share / share.sum(-1, keepdim=True)
        taken = high.transpose(1, 2)[torch.arange(batch)[:, None, None], index]
        spread = (taken * share[..., None]).sum(2)
        return {"logits": self.head(self.back(torch.cat([spread, points], 2).transpose(1, 2)).transpose(1, 2))}


class DGCNN(nn.Module):
    """Wang et al. 2019: edges to the nearest neighbours, found anew in each layer."""

    def __init__(self, k: int = 4) -> None:
        super().__init__()
        self.k = k
        self.first = nn.Sequential(nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2))
        self.second = nn.Sequential(nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.LeakyReLU(0.2))
        self.head = nn.Linear(48, CLASSES)

    def _edges(self, x: Tensor) -> Tensor:
        """[batch, points, width] -> [batch, 2 width, points, k]"""
        inner = -2 * x @ x.transpose(1, 2)
        size = (x**2).sum(-1, keepdim=True)
        index = (-size - inner - size.transpose(1, 2)).topk(self.k).indices
        other = x.unsqueeze(1).expand(-1, x.shape[1], -1, -1).gather(2, index[..., None].expand(-1, -1, -1, x.shape[2]))
        own = x[:, :, None].expand_as(other)
        return torch.cat([other - own, own], -1).permute(0, 3, 1, 2)

    def forward(self, points: Tensor) -> Output:
        a = self.first(self._edges(points)).amax(-1)
        b = self.second(self._edges(a.transpose(1, 2))).amax(-1)
        x = torch.cat([a, b], 1)
        return {"logits": self.head(torch.cat([x.amax(2), x.mean(2)], 1))}


class PointTransformer(nn.Module):
    """Zhao et al. 2021: vector attention over given neighbours."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.enter = nn.Linear(3, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.place = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, points: Tensor, neighbours: Tensor) -> Output:
        x = self.enter(points)
        rows = torch.arange(points.shape[0])[:, None, None]
        apart = self.place(points[:, :, None] - points[rows, neighbours])
        share = torch.softmax(self.weigh(self.q(x)[:, :, None] - self.k(x)[rows, neighbours] + apart), 2)
        return {"logits": self.head(x + (share * (self.v(x)[rows, neighbours] + apart)).sum(2))}


class Completion(nn.Module):
    """Points from a code (FoldingNet, Yang et al. 2018), compared by Chamfer distance."""

    grid: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.fold = shared(3, 16), nn.Sequential(nn.Linear(18, 24), nn.ReLU(), nn.Linear(24, 3))
        grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 4), indexing="ij"), -1)
        self.register_buffer("grid", grid.view(-1, 2))

    def forward(self, points: Tensor) -> Output:
        code = self.encoder(points.transpose(1, 2)).amax(2)[:, None].expand(-1, 16, -1)
        made = self.fold(torch.cat([code, self.grid.expand(points.shape[0], -1, -1)], -1))
        apart = ((made[:, :, None] - points[:, None]) ** 2).sum(-1)
        return {"loss": apart.amin(2).mean() + apart.amin(1).mean()}


def _grouped(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.stack([torch.randperm(POINTS, generator=generator)[:5] for _ in range(BATCH)])
    groups = torch.randint(0, POINTS, (BATCH, 5, 4), generator=generator)
    return {"points": torch.randn(BATCH, POINTS, 3, generator=generator), "centres": centres, "groups": groups}


def _with_neighbours(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(BATCH, POINTS, 3, generator=generator)
    return {"points": points, "neighbours": torch.randint(0, POINTS, (BATCH, POINTS, 4), generator=generator)}


CLOUD = drawn(points=normal(BATCH, POINTS, 3))
FAMILIES: tuple[Family, ...] = (
    brief("pointnet", PointNet, CLOUD, classes(CLASSES, BATCH)),
    brief("pointnet2", PointNet2, _grouped, classes(CLASSES, BATCH, POINTS)),
    brief("dgcnn", DGCNN, drawn(points=uniform(BATCH, POINTS, 3)), classes(CLASSES, BATCH)),
    brief("point_transformer", PointTransformer, _with_neighbours, classes(CLASSES, BATCH, POINTS)),
    brief("chamfer", Completion, CLOUD),
)
