"""Image classifiers written out from their papers, each a stem, a block or two and a head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..family import Family, brief, classes, images

BATCH, CLASSES, SIDE, WIDTH = 2, 5, 16, 16
Output = dict[str, Tensor]


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution and batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class Classifier(nn.Module):
    """A strided stem, a body of as many channels as `leave`, the mean over pixels, a linear head."""

    def __init__(self, body: nn.Module, leave: int = WIDTH, stride: int = 2) -> None:
        super().__init__()
        self.stem = conv(3, WIDTH, 3, stride)
        self.body = body
        self.head = nn.Linear(leave, CLASSES)

    def forward(self, pixel_values: Tensor) -> Output:
        return {"logits": self.head(self.body(F.silu(self.stem(pixel_values))).mean((2, 3)))}


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def mbconv(width: int, stride: int = 1) -> nn.Module:
    """Inverted residual with squeeze and excitation."""
    inner = 2 * width
    body = [conv(width, inner, 1), nn.SiLU(), conv(inner, inner, 3, stride, inner), nn.SiLU()]
    body += [SqueezeExcite(inner), conv(inner, width, 1)]
    return Residual(*body) if stride == 1 else nn.Sequential(*body)


def efficientnet_v2() -> nn.Module:
    """Tan & Le 2021: fused blocks, then inverted ones."""
    fused = Residual(conv(WIDTH, 2 * WIDTH), nn.SiLU(), conv(2 * WIDTH, WIDTH, 1))
    return Classifier(nn.Sequential(fused, mbconv(WIDTH, 2), mbconv(WIDTH)))


def regnet_y() -> nn.Module:
    """Radosavovic et al. 2020: group convolutions with squeeze and excitation."""

    def block() -> nn.Module:
        grouped = conv(WIDTH, WIDTH, 3, 1, 4)
        return Residual(
            conv(WIDTH, WIDTH, 1), nn.ReLU(), grouped, nn.ReLU(), SqueezeExcite(WIDTH), conv(WIDTH, WIDTH, 1)
        )

    return Classifier(nn.Sequential(block(), nn.ReLU(), block(), nn.ReLU()))


class ConvNeXtV2(nn.Module):
    """Woo et al. 2023: a depthwise convolution, global response normalisation in between."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.gamma, self.beta = nn.Parameter(torch.randn(4 * WIDTH)), nn.Parameter(torch.randn(4 * WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.up(self.norm(self.depth(x).permute(0, 2, 3, 1))))
        size = torch.norm(h, p=2, dim=(1, 2), keepdim=True)
        h = self.gamma * (h * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.beta + h
        return x + self.down(h).permute(0, 3, 1, 2)


class RelativeAttention(nn.Module):
    """Attention over all positions with a learned bias for each offset (CoAtNet, MaxViT)."""

    index: Tensor

    def __init__(self, side: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads) * 0.5)
        place = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None] + side - 1
        self.register_buffer("index", apart[0] * (2 * side - 1) + apart[1])

    def forward(self, x: Tensor) -> Tensor:
        """[groups, positions, width]"""
        groups, count, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(groups, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index].permute(2, 0, 1)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        return x + self.out(found.transpose(1, 2).reshape(groups, count, width))


class MaxViT(nn.Module):
    """Tu et al. 2022: attention in blocks of neighbours, then over a grid of strangers."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.size = size
        self.local, self.block, self.grid = mbconv(WIDTH), RelativeAttention(size), RelativeAttention(size)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, height, _ = x.shape
        s, count = self.size, height // self.size
        x = self.local(x).permute(0, 2, 3, 1)
        x = x.view(batch, count, s, count, s, width).transpose(2, 3).reshape(-1, s * s, width)
        x = self.block(x).view(batch, count, count, s, s, width).transpose(2, 3).reshape(batch, height, height, width)
        x = x.view(batch, s, count, s, count, width).permute(0, 2, 4, 1, 3, 5).reshape(-1, s * s, width)
        x = self.grid(x).view(batch, count, count, s, s, width).permute(0, 3, 1, 4, 2, 5)
        return x.reshape(batch, height, height, width).permute(0, 3, 1, 2)


class CoAtNet(nn.Module):
    """Dai et al. 2021: an inverted residual, then relative attention over all pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.attention = mbconv(WIDTH), RelativeAttention(SIDE // 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.first(x), 2)
        found = self.attention(x.flatten(2).transpose(1, 2))
        return found.transpose(1, 2).reshape(x.shape)


class MLPMixer(nn.Module):
    """Tolstikhin et al. 2021."""

    def __init__(self, tokens: int = (SIDE // 4) ** 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.norm1, self.norm2, self.norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.across = nn.Sequential(nn.Linear(tokens, 8), nn.GELU(), nn.Linear(8, tokens))
        self.within = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pixel_values: Tensor) -> Output:
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.within(self.norm2(x))
        return {"logits": self.head(self.norm(x).mean(1))}


class PoolFormer(nn.Module):
    """Yu et al. 2022: pooling in the place of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, WIDTH), nn.GroupNorm(1, WIDTH)
        self.mlp = nn.Sequential(nn.Conv2d(WIDTH, 32, 1), nn.GELU(), nn.Conv2d(32, WIDTH, 1))
        self.scale = nn.Parameter(torch.full((2, WIDTH, 1, 1), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + self.scale[0] * (F.avg_pool2d(h, 3, 1, 1) - h)
        return x + self.scale[1] * self.mlp(self.norm2(x))


class Ghost(nn.Module):
    """Han et al. 2020: half of the channels are cheap copies."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.cheap = conv(WIDTH, WIDTH // 2, 1), conv(WIDTH // 2, WIDTH // 2, 3, 1, WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        first = F.relu(self.main(x))
        return torch.cat([first, F.relu(self.cheap(first))], 1) + x


class CBAM(nn.Module):
    """Woo et al. 2018: attention over channels, then over pixels, by means and maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, WIDTH))
        self.space = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        channel = torch.sigmoid(self.shared(x.mean((2, 3))) + self.shared(x.amax((2, 3))))
        x = x * channel[:, :, None, None]
        return x * torch.sigmoid(self.space(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)))


class Standardised(nn.Conv2d):
    """A convolution whose weight is standardised first (Qiao et al. 2019; NFNet scales it, too)."""

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True)
        weight = (self.weight - mean) * torch.rsqrt(variance * self.weight[0].numel() + 1e-4)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def nfnet() -> nn.Module:
    """Brock et al. 2021: no batch statistics anywhere."""
    body = [nn.GELU(), Standardised(WIDTH, WIDTH, 3, padding=1), nn.GELU(), Standardised(WIDTH, WIDTH, 1)]
    return Classifier(Residual(*body))


class Involution(nn.Module):
    """Li et al. 2021: kernels made for each pixel, by unfold."""

    def __init__(self, groups: int = 4, kernel: int = 3) -> None:
        super().__init__()
        self.groups, self.kernel = groups, kernel
        self.reduce, self.span = conv(WIDTH, 8, 1), nn.Conv2d(8, kernel**2 * groups, 1)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, height, _ = x.shape
        weight = self.span(F.relu(self.reduce(x))).view(batch, self.groups, 1, self.kernel**2, height, height)
        patches = F.unfold(x, self.kernel, padding=self.kernel // 2)
        patches = patches.view(batch, self.groups, width // self.groups, self.kernel**2, height, height)
        return (weight * patches).sum(3).view(batch, width, height, height)


class HRNet(nn.Module):
    """Sun et al. 2019: two resolutions side by side that exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.down = conv(WIDTH, 2 * WIDTH, 3, 2)
        self.high, self.low = Residual(conv(WIDTH, WIDTH)), Residual(conv(2 * WIDTH, 2 * WIDTH))
        self.up, self.further = conv(2 * WIDTH, WIDTH, 1), conv(WIDTH, 2 * WIDTH, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        high, low = F.relu(self.high(x)), F.relu(self.low(F.relu(self.down(x))))
        fused = F.relu(high + F.interpolate(self.up(low), size=high.shape[2:], mode="bilinear", align_corners=False))
        low = F.relu(low + self.further(high))
        return torch.cat([fused, F.interpolate(low, size=high.shape[2:], mode="nearest")], 1)


class STN(nn.Module):
    """Jaderberg et al. 2015: the image is warped before it is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(WIDTH, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6))

    def forward(self, x: Tensor) -> Tensor:
        theta = 0.1 * self.locate(x).view(-1, 2, 3) + torch.eye(2, 3)
        return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


class FocalModulation(nn.Module):
    """Yang et al. 2022: contexts of growing windows, gated."""

    def __init__(self, levels: int = 2) -> None:
        super().__init__()
        self.levels = levels
        self.enter = nn.Conv2d(WIDTH, 2 * WIDTH + levels + 1, 1)
        self.layers = nn.ModuleList(
            nn.Conv2d(WIDTH, WIDTH, 3 + 2 * i, padding=1 + i, groups=WIDTH, bias=False) for i in range(levels)
        )
        self.mix, self.out = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, context, gates = self.enter(x).split([WIDTH, WIDTH, self.levels + 1], 1)
        total = torch.zeros_like(q)
        for level, layer in enumerate(self.layers):
            context = F.gelu(layer(context))
            total = total + context * gates[:, level, None]
        total = total + F.gelu(context.mean((2, 3), keepdim=True)) * gates[:, self.levels, None]
        return x + self.out(q * self.mix(total))


def _body(make: Callable[[], nn.Module], leave: int = WIDTH) -> Callable[[], nn.Module]:
    return lambda: Classifier(make(), leave)


IMAGES = images(SIDE)
LABELS = classes(CLASSES, BATCH)
FAMILIES: tuple[Family, ...] = tuple(
    brief(name, make, IMAGES, LABELS)
    for name, make in {
        "efficientnet_v2": efficientnet_v2,
        "regnet_y": regnet_y,
        "convnext_v2": _body(ConvNeXtV2),
        "maxvit": _body(MaxViT),
        "coatnet": _body(CoAtNet),
        "mlp_mixer": MLPMixer,
        "poolformer": _body(PoolFormer),
        "ghostnet": _body(Ghost),
        "cbam": _body(CBAM),
        "nfnet": nfnet,
        "involution": _body(Involution),
        "hrnet": _body(HRNet, 3 * WIDTH),
        "spatial_transformer": _body(STN),
        "focalnet": _body(FocalModulation),
    }.items()
)
