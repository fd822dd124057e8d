"""Tables and recommendations: rows of numbers and categories, large tables of embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..family import Batch, Family, brief, classes, drawn, integers, normal, uniform

BATCH, NUMBERS, CATEGORIES, CLASSES, ROWS = 4, 6, 3, 3, 5000
Output = dict[str, Tensor]


def sparsemax(x: Tensor) -> Tensor:
    """Martins & Astudillo 2016: the nearest point of the simplex."""
    ordered = x.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1)
    total = ordered.cumsum(-1) - 1
    inside = (count * ordered > total).sum(-1, keepdim=True)
    return torch.relu(x - total.gather(-1, inside - 1) / inside)


class TabNet(nn.Module):
    """Arik & Pfister 2021: steps that each look at a few features."""

    def __init__(self, width: int = 8, steps: int = 3) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(NUMBERS)
        self.shared = nn.Linear(NUMBERS, 4 * width)
        self.own = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(steps + 1))
        self.look = nn.ModuleList(
            nn.Sequential(nn.Linear(width, NUMBERS), nn.BatchNorm1d(NUMBERS)) for _ in range(steps)
        )
        self.head = nn.Linear(width, CLASSES)

    def _transformed(self, x: Tensor, step: int) -> tuple[Tensor, Tensor]:
        h = F.glu(self.shared(x))
        h = (h + F.glu(self.own[step](h))) * 0.5**0.5
        return h.chunk(2, -1)

    def forward(self, features: Tensor) -> Output:
        x = self.norm(features)
        prior, total = torch.ones_like(x), torch.zeros(())
        _, attended = self._transformed(x, 0)
        for step, look in enumerate(self.look):
            mask = sparsemax(look(attended) * prior)
            prior = prior * (1.3 - mask)
            decided, attended = self._transformed(mask * x, step + 1)
            total = total + torch.relu(decided)
        return {"logits": self.head(total)}


class FTTransformer(nn.Module):
    """Gorishniy et al. 2021: every feature a token."""

    offsets: Tensor

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(NUMBERS, width)), nn.Parameter(torch.randn(NUMBERS, width))
        self.kinds = nn.Embedding(CATEGORIES * 10, width)
        self.register_buffer("offsets", torch.arange(CATEGORIES) * 10)
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, CLASSES))

    def forward(self, features: Tensor, kinds: Tensor) -> Output:
        tokens = [self.cls.expand(features.shape[0], -1, -1), features[..., None] * self.scale + self.shift]
        return {"logits": self.head(self.body(torch.cat([*tokens, self.kinds(kinds + self.offsets)], 1))[:, 0])}


class NODE(nn.Module):
    """Popov et al. 2020: oblivious trees whose features are chosen softly; here with sparsemax."""

    def __init__(self, trees: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.choose = nn.Parameter(torch.randn(NUMBERS, trees, depth))
        self.threshold, self.log_heat = nn.Parameter(torch.randn(trees, depth)), nn.Parameter(torch.zeros(trees, depth))
        self.answer = nn.Parameter(torch.randn(trees, CLASSES, 2**depth))
        bits = (torch.arange(2**depth)[None] >> torch.arange(depth)[:, None]) % 2
        self.register_buffer("codes", torch.stack([bits, 1 - bits], -1).float())

    def forward(self, features: Tensor) -> Output:
        chosen = torch.einsum("bf,ftd->btd", features, sparsemax(self.choose.movedim(0, -1)).movedim(-1, 0))
        side = (chosen - self.threshold) * torch.exp(-self.log_heat)
        sides = (0.5 * torch.stack([-side, side], -1) + 0.5).clamp(0, 1)
        reached = torch.einsum("btds,dcs->btdc", sides, self.codes).prod(-2)
        return {"logits": torch.einsum("btc,toc->bo", reached, self.answer)}


class SAINT(nn.Module):
    """Somepalli et al. 2021: attention between the features of a row, then between the rows of a batch."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.ModuleList(
            nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(NUMBERS)
        )
        self.columns = nn.MultiheadAttention(width, 2, batch_first=True)
        self.rows = nn.MultiheadAttention(width * NUMBERS, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width * NUMBERS)
        self.head = nn.Linear(width * NUMBERS, CLASSES)

    def forward(self, features: Tensor) -> Output:
        x = torch.stack([part(features[:, i, None]) for i, part in enumerate(self.embed)], 1)
        x = self.norm1(x + self.columns(x, x, x, need_weights=False)[0])
        rows = x.flatten(1)[None]
        return {"logits": self.head(self.norm2(rows + self.rows(rows, rows, rows, need_weights=False)[0])[0])}


class DLRM(nn.Module):
    """Naumov et al. 2019: bags of categories from large tables, and products of all pairs."""

    places: Tensor

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, width, mode="sum") for _ in range(CATEGORIES))
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = (CATEGORIES + 1) * CATEGORIES // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("places", torch.tril_indices(CATEGORIES + 1, CATEGORIES + 1, -1))

    def forward(self, features: Tensor, kinds: Tensor, clicks: Tensor) -> Output:
        dense = self.bottom(features)
        stacked = torch.stack([dense, *(table(kinds[:, i]) for i, table in enumerate(self.tables))], 1)
        products = (stacked @ stacked.transpose(1, 2))[:, self.places[0], self.places[1]]
        scores = self.top(torch.cat([dense, products], 1))[:, 0]
        return {"loss": F.binary_cross_entropy_with_logits(scores, clicks)}


class DeepFM(nn.Module):
    """Guo et al. 2017: a factorisation machine beside a network on the same embeddings."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(ROWS, 1), nn.Embedding(ROWS, width)
        self.deep = nn.Sequential(nn.Linear(CATEGORIES * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, kinds: Tensor, clicks: Tensor) -> Output:
        v = self.second(kinds)
        pairs = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(-1)
        scores = self.first(kinds).sum((1, 2)) + pairs + self.deep(v.flatten(1))[:, 0]
        return {"loss": F.binary_cross_entropy(torch.sigmoid(scores), clicks)}


class TwoTower(nn.Module):
    """Yi et al. 2019: users and items, the batch's other items as wrong answers, corrected for their frequency."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(ROWS, width), nn.Embedding(ROWS, width)
        self.user_tower, self.item_tower = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, user: Tensor, item: Tensor, frequency: Tensor) -> Output:
        u = F.normalize(self.user_tower(self.users(user)), dim=-1)
        v = F.normalize(self.item_tower(self.items(item)), dim=-1)
        return {"loss": F.cross_entropy(u @ v.T / 0.1 - torch.log(frequency + 0.1), torch.arange(u.shape[0]))}


class SASRec(nn.Module):
    """Kang & McAuley 2018: causal attention over what was bought; one wrong item for each right one; 0 is padding."""

    def __init__(self, width: int = 8, time: int = 6) -> None:
        super().__init__()
        self.items = nn.Embedding(ROWS, width, padding_idx=0)
        self.places = nn.Embedding(time, width)
        self.norm, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attention = nn.MultiheadAttention(width, 1, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, seen: Tensor, right: Tensor, wrong: Tensor) -> Output:
        time = seen.shape[1]
        known = (seen != 0)[..., None]
        x = (self.items(seen) * 8**0.5 + self.places(torch.arange(time))) * known
        ahead = torch.triu(torch.ones(time, time, dtype=torch.bool), 1)
        q = self.norm(x)
        x = self.norm2(q + self.attention(q, x, x, attn_mask=ahead, need_weights=False)[0])
        h = self.norm3((x + self.feed(x)) * known)
        good, bad = ((h * self.items(which)).sum(-1) for which in (right, wrong))
        counted = (right != 0).float()
        losses = F.logsigmoid(good) + F.logsigmoid(-bad)
        return {"loss": -(losses * counted).sum() / counted.sum()}


FEATURES = drawn(features=normal(BATCH, NUMBERS))
LABELS = classes(CLASSES, BATCH)
CLICKS = uniform(BATCH)


def _baskets() -> Batch:
    return drawn(seen=integers(ROWS, BATCH, 6), right=integers(ROWS, BATCH, 6), wrong=integers(ROWS, BATCH, 6))


FAMILIES: tuple[Family, ...] = (
    brief("tabnet", TabNet, FEATURES, LABELS),
    brief(
        "ft_transformer",
        FTTransformer,
        drawn(features=normal(BATCH, NUMBERS), kinds=integers(10, BATCH, CATEGORIES)),
        LABELS,
    ),
    brief("node_trees", NODE, FEATURES, LABELS),
    brief("saint", SAINT, FEATURES, LABELS),
    brief(
        "dlrm",
        DLRM,
        drawn(features=normal(BATCH, NUMBERS), kinds=integers(ROWS, BATCH, CATEGORIES, 4), clicks=CLICKS),
    ),
    brief("deep_fm", DeepFM, drawn(kinds=integers(ROWS, BATCH, CATEGORIES), clicks=CLICKS)),
    brief(
        "two_tower", TwoTower, drawn(user=integers(ROWS, BATCH), item=integers(ROWS, BATCH), frequency=uniform(BATCH))
    ),
    brief("sasrec", SASRec, _baskets()),
)
