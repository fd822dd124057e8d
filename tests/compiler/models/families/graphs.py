"""Graph networks over fixed edges: features of nodes in, one class for each graph or node out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..family import Family, brief, drawn, integers, normal

GRAPHS, NODES, FEATURES, CLASSES = 2, 6, 8, 3
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 1, 3], [1, 2, 3, 4, 5, 0, 3, 5, 4, 1]])
"""[2, edges]: from, to."""
Output = dict[str, Tensor]


def _sum_at(values: Tensor, targets: Tensor) -> Tensor:
    """Adds up the edges' values [graphs, edges, features] at the nodes they lead to."""
    return torch.zeros(values.shape[0], NODES, values.shape[2]).index_add(1, targets, values)


class GCN(nn.Module):
    """Kipf & Welling 2017, with the normalised adjacency as a sparse sum over edges."""

    edges: Tensor
    norm: Tensor

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, width), nn.Linear(width, CLASSES)
        loops = torch.cat([EDGES, torch.arange(NODES).repeat(2, 1)], 1)
        degree = torch.zeros(NODES).index_add(0, loops[1], torch.ones(loops.shape[1]))
        self.register_buffer("edges", loops)
        self.register_buffer("norm", (degree[loops[0]] * degree[loops[1]]).rsqrt()[None, :, None], persistent=False)

    def _spread(self, x: Tensor) -> Tensor:
        return _sum_at(x[:, self.edges[0]] * self.norm, self.edges[1])

    def forward(self, x: Tensor) -> Output:
        return {"logits": self._spread(self.second(torch.relu(self._spread(self.first(x)))))}


class GAT(nn.Module):
    """Velickovic et al. 2018: attention over incoming edges, by scatter_reduce and scatter_add."""

    def __init__(self, heads: int = 2, width: int = 8) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.project = nn.Linear(FEATURES, heads * width, bias=False)
        self.source, self.sink = nn.Parameter(torch.randn(heads, width)), nn.Parameter(torch.randn(heads, width))
        self.head = nn.Linear(heads * width, CLASSES)

    def forward(self, x: Tensor) -> Output:
        h = self.project(x).view(x.shape[0], NODES, self.heads, self.width)
        source, sink = EDGES
        score = (h * self.source).sum(-1)[:, source] + (h * self.sink).sum(-1)[:, sink]
        score = nn.functional.leaky_relu(score, 0.2)
        where = sink[None, :, None].expand_as(score)
        most = torch.full((x.shape[0], NODES, self.heads), -1e9).scatter_reduce(1, where, score, "amax")
        weight = torch.exp(score - most.detach().gather(1, where))
        total = torch.zeros(x.shape[0], NODES, self.heads).scatter_add(1, where, weight)
        share = weight / total.gather(1, where)
        mixed = _sum_at((h[:, source] * share[..., None]).flatten(2), sink)
        return {"logits": self.head(nn.functional.elu(mixed))}


class GraphSAGE(nn.Module):
    """Hamilton et al. 2017: the maximum of the neighbours' features beside a node's own."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.pool, self.own, self.other = (nn.Linear(FEATURES, width) for _ in range(3))
        self.head = nn.Linear(width, CLASSES)
        self.join = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Output:
        source, sink = EDGES
        seen = torch.relu(self.pool(x))[:, source]
        where = sink[None, :, None].expand_as(seen)
        best = torch.zeros(x.shape[0], NODES, seen.shape[2]).scatter_reduce(1, where, seen, "amax", include_self=True)
        h = nn.functional.normalize(torch.relu(self.own(x) + self.join(best)), dim=-1)
        return {"logits": self.head(h) + 0.0 * self.other(x)[..., :CLASSES]}


class GIN(nn.Module):
    """Xu et al. 2019, a class for the whole graph."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(2))
        self.first = nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Output:
        for step, layer in enumerate((self.first, self.second)):
            x = layer((1 + self.eps[step]) * x + _sum_at(x[:, EDGES[0]], EDGES[1]))
        return {"logits": self.head(x.sum(1))}


class EGNN(nn.Module):
    """Satorras et al. 2021: messages of squared distances move the nodes' places; the loss is where they end."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * FEATURES + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.move = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1, bias=False))
        self.update = nn.Linear(FEATURES + width, FEATURES)

    def forward(self, x: Tensor, places: Tensor, wanted: Tensor) -> Output:
        source, sink = EDGES
        apart = places[:, sink] - places[:, source]
        message = self.message(torch.cat([x[:, sink], x[:, source], (apart**2).sum(-1, keepdim=True)], -1))
        places = places + _sum_at(apart * self.move(message), sink) / NODES
        x = x + self.update(torch.cat([x, _sum_at(message, sink)], -1))
        return {"loss": ((places - wanted) ** 2).mean() + (x**2).mean() * 0.1}


def _nodes(name: str, make: Callable[[], nn.Module], *labels: int) -> Family:
    return brief(name, make, drawn(x=normal(GRAPHS, NODES, FEATURES)), drawn(labels=integers(CLASSES, GRAPHS, *labels)))


FAMILIES = (
    _nodes("gcn", GCN, NODES),
    _nodes("gat", GAT, NODES),
    _nodes("graph_sage", GraphSAGE, NODES),
    _nodes("gin", GIN),
    brief(
        "egnn",
        EGNN,
        drawn(x=normal(GRAPHS, NODES, FEATURES), places=normal(GRAPHS, NODES, 3), wanted=normal(GRAPHS, NODES, 3)),
    ),
)
