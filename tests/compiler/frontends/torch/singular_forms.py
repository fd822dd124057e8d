"""How PyTorch models spell functions that are singular somewhere, with inputs at those points."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Form = Callable[..., Tensor]

_INF, _NAN = math.inf, math.nan
ROWS = [[0.0, 0.0, 0.0], [3.0, -4.0, 0.0], [1.0, 1.0, 1.0]]
OTHER_ROWS = [[1.0, 0.0, 2.0], [3.0, -4.0, 0.0], [0.0, 0.0, 0.0]]
POINTS = [
    *(0.0, -0.0, 1.0, -1.0, 6.0, 3.0, -3.0, 0.5, -0.5, 1e-30),
    *(20.0, -20.0, 21.0, 88.0, -88.0, 200.0, -200.0, 1e20, -1e20),
]
INFINITE = [*POINTS, _INF, -_INF]
TIES = [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [0.0, -1.0, 0.0]]
OTHER_TIES = [[1.0, 0.0, 0.0], [3.0, 2.0, 1.0], [0.0, -1.0, 5.0]]
HIDDEN = [[-_INF, -_INF, -_INF], [0.0, 0.0, 0.0], [1000.0, -1000.0, 0.0], [-_INF, 0.0, 1.0]]
FACTORS = [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [2.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
SHARES = [0.0, 1.0, 0.0, 1.0, 0.5, 0.25]
ANSWERS = [0.0, 1.0, 1.0, 0.0, 0.5, 0.0]
ANGLES = ([0.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0], [0.0, 0.0, 1.0, 0.0, -1.0, -1.0, -1.0])
POWERS = (
    [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, 2.0, _INF, 1.0, -2.0],
    [0.0, 1.0, 2.0, -1.0, 2.0, 3.0, 0.0, 1.0, _INF, 0.5],
)
_TURNS = torch.tensor([1.0, -1.0, 1.0])
_SEEN = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
_CLASSES, _IGNORED = torch.tensor([0, 2, 1]), torch.tensor([-100, -100, -100])
_PLACES = torch.tensor([0, 0, 1, 1])


def _at_power(p: float) -> Form:
    return lambda x: x**p


def _norm(p: float) -> Form:
    return lambda x: torch.linalg.vector_norm(x, p, dim=1)


FORMS: dict[str, tuple[tuple[object, ...], dict[str, Form]]] = {
    "rows": (
        (ROWS,),
        {
            "norm": lambda x: torch.norm(x, dim=1),
            "norm of all": lambda x: x.norm(),
            "matrix norm": torch.linalg.matrix_norm,
            **{f"vector norm {p}": _norm(p) for p in (0, 0.5, 1, 1.5, 2, 3, _INF, -_INF)},
            "own norm": lambda x: torch.sqrt((x * x).sum(1)),
            "own norm by power": lambda x: (x**2).sum(1) ** 0.5,
            "normalize": lambda x: F.normalize(x, dim=1),
            "normalize by sum": lambda x: F.normalize(x, p=1.0, dim=1),
            "over norm": lambda x: x / x.norm(dim=1, keepdim=True),
            "over norm and a little": lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-6),
            "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
            "std": lambda x: x.std(1),
            "std of the population": lambda x: x.std(1, unbiased=False),
            "std of all": lambda x: x.std(),
            "std and mean": lambda x: torch.std_mean(x, 1)[0],
            "std of one": lambda x: x[:, :1].std(1, correction=0),
            "var": lambda x: x.var(1),
            "var of one": lambda x: x[:, :1].var(1),
            "layer norm": lambda x: F.layer_norm(x, (3,)),
            "rms norm": lambda x: F.rms_norm(x, (3,), eps=1e-6),
            "group norm": lambda x: F.group_norm(x[None], 1),
            "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
            "masked softmax": lambda x: x.masked_fill(x == 0, -_INF).softmax(1),
            "cross entropy": lambda x: F.cross_entropy(x, _CLASSES),
            "cross entropy of nothing": lambda x: F.cross_entropy(x, _IGNORED),
            "sum of ignored losses": lambda x: F.cross_entropy(x, _IGNORED, reduction="sum"),
            "multi margin": lambda x: F.multi_margin_loss(x, _CLASSES),
            "attention, a row hidden": lambda x: F.scaled_dot_product_attention(
                x[None, None], x[None, None], x[None, None], attn_mask=_SEEN
            ),
            "attention, a row of -inf": lambda x: F.scaled_dot_product_attention(
                x[None, None], x[None, None], x[None, None], attn_mask=torch.where(_SEEN, 0.0, -_INF)
            ),
        },
    ),
    "pairs of rows": (
        (ROWS, OTHER_ROWS),
        {
            "cosine similarity": F.cosine_similarity,
            "pairwise distance": F.pairwise_distance,
            "pairwise distance by sum": lambda x, y: F.pairwise_distance(x, y, p=1.0),
            "distances": torch.cdist,
            "distances by sum": lambda x, y: torch.cdist(x, y, p=1.0),
            "distance": lambda x, y: torch.dist(x, x + 0 * y),
            "triplets": lambda x, y: F.triplet_margin_loss(x, y, y),
            "cosine embedding": lambda x, y: F.cosine_embedding_loss(x, y, _TURNS),
        },
    ),
    "points": (
        (INFINITE,),
        {
            "clamp": lambda x: x.clamp(-1, 1),
            "clamp from below": lambda x: x.clamp(min=0),
            "clamp from above": lambda x: x.clamp(max=1),
            "clamp_min": lambda x: torch.clamp_min(x, 0.5),
            "clip to one": lambda x: torch.clip(x, 1, 1),
            "hardtanh": F.hardtanh,
            "relu6": F.relu6,
            "relu": F.relu,
            "hardsigmoid": F.hardsigmoid,
            "hardshrink": F.hardshrink,
            "softshrink": F.softshrink,
            "threshold": lambda x: F.threshold(x, 0.5, 0.0),
            "leaky relu": F.leaky_relu,
            "elu": lambda x: F.elu(x, 0.5),
            "selu": F.selu,
            "celu": lambda x: F.celu(x, 2.0),
            "softplus": F.softplus,
            "softplus, sharp": lambda x: F.softplus(x, 2.0, 5.0),
            "logsigmoid": F.logsigmoid,
            **{f.__name__: f for f in (torch.sigmoid, torch.tanh, torch.exp, torch.expm1, torch.log, torch.log1p)},
            **{f.__name__: f for f in (torch.log2, torch.log10, torch.exp2, torch.sqrt, torch.rsqrt, torch.erf)},
            **{f.__name__: f for f in (torch.reciprocal, torch.abs, torch.sign, torch.square, torch.atan)},
            **{f"power {p}": _at_power(p) for p in (0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, -1, -2, 1 / 3)},
        },
    ),
    "finite points": (
        (POINTS,),
        {
            "hardswish": F.hardswish,
            "gelu": F.gelu,
            "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu,
            "mish": F.mish,
            "softsign": F.softsign,
            "tanhshrink": F.tanhshrink,
            "asinh": torch.asinh,
            "acosh": torch.acosh,
            "two to the power": lambda x: torch.pow(2.0, x),
            "log where positive": lambda x: torch.where(x > 0, torch.log(x), x),
            "root where positive": lambda x: torch.where(x > 0, torch.sqrt(x), torch.zeros_like(x)),
            "frac": torch.frac,
        },
    ),
    "ties": (
        (TIES,),
        {
            "max": lambda x: x.max(1).values,
            "min": lambda x: x.min(1).values,
            "max of all": lambda x: x.max(),
            "min of all": lambda x: x.min(),
            "amax": lambda x: x.amax(1),
            "amin": lambda x: x.amin(1),
            "aminmax": lambda x: torch.aminmax(x, dim=1).max,
            "topk": lambda x: x.topk(2, 1).values,
            "max pool": lambda x: F.max_pool2d(x[None], 2, 1),
            "max pool along": lambda x: F.max_pool1d(x, 2, 1),
            "adaptive max pool": lambda x: F.adaptive_max_pool2d(x[None], 1),
            "adaptive max pool along": lambda x: F.adaptive_max_pool1d(x, 1),
            "hinge embedding": lambda x: F.hinge_embedding_loss(x, _TURNS),
            "glu": lambda x: F.glu(x[:, :2], 1),
            "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
        },
    ),
    "pairs with ties": (
        (TIES, OTHER_TIES),
        {
            "maximum": torch.maximum,
            "minimum": torch.minimum,
            "clamp by tensors": lambda x, y: torch.clamp(x, y, y + 1),
            "clamp by a tensor": lambda x, y: torch.clamp(x, min=y),
            "mean squared error": F.mse_loss,
            "mean absolute error": F.l1_loss,
            "smooth l1": F.smooth_l1_loss,
            "huber": F.huber_loss,
            "margin ranking": lambda x, y: F.margin_ranking_loss(x[0], y[0], _TURNS),
            "divergence of logarithms": lambda x, y: F.kl_div(x, y, log_target=True, reduction="sum"),
            "prelu": lambda x, y: F.prelu(x, y[0]),
            "greatest by place": lambda x, y: torch.scatter_reduce(x[0], 0, _PLACES[:3], y[1], "amax"),
            "product by place": lambda x, y: torch.scatter_reduce(x[1], 0, _PLACES[:3], y[2], "prod"),
            "hypot": torch.hypot,
        },
    ),
    "hidden": (
        (HIDDEN,),
        {
            "softmax": lambda x: F.softmax(x, 1),
            "log softmax": lambda x: F.log_softmax(x, 1),
            "logsumexp": lambda x: torch.logsumexp(x, 1),
            "logaddexp": lambda x: torch.logaddexp(x[:, 0], x[:, 1]),
        },
    ),
    "factors": ((FACTORS,), {"prod": lambda x: x.prod(1), "cumprod": lambda x: x.cumprod(1), "of all": torch.prod}),
    "shares": (
        (SHARES, ANSWERS),
        {
            "binary cross entropy": F.binary_cross_entropy,
            "binary cross entropy of scores": lambda x, y: F.binary_cross_entropy_with_logits(400 * x - 200, y),
            "xlogy": torch.xlogy,
            "entropy": lambda x, y: torch.special.entr(x),
            "x log x": lambda x, y: x * torch.log(x),
            "logit": lambda x, y: torch.logit(x),
            "logit within": lambda x, y: torch.logit(x, eps=0.25),
            "sinc": lambda x, y: torch.sinc(x),
            "asin": lambda x, y: torch.asin(2 * x - 1),
            "acos": lambda x, y: torch.acos(2 * x - 1),
            "atanh": lambda x, y: torch.atanh(2 * x - 1),
        },
    ),
    "angles": (ANGLES, {"atan2": torch.atan2, "quotient": torch.div}),
    "powers": (POWERS, {"power": torch.pow}),
}
"""Group -> (its inputs, name -> function of them)."""
