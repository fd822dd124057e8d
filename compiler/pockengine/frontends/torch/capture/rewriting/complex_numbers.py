"""Complex numbers, of which PyTorch's exporter knows some functions: the others are traced as functions of real and
imaginary parts, which lie beside each other on a last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_REAL = torch.Tensor.real.__get__  # type: ignore[attr-defined]
_IMAGINARY = torch.Tensor.imag.__get__  # type: ignore[attr-defined]


def replacement(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What stands in for a function of complex tensors; None for any other call."""
    if not any(isinstance(x, Tensor) and x.is_complex() for x in args):
        return None
    if function == _REAL:
        return lambda x: torch.view_as_real(x).select(-1, 0)
    if function == _IMAGINARY:
        return lambda x: torch.view_as_real(x).select(-1, 1)
    return _FUNCTIONS.get(function)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    pair = torch.view_as_real(x)
    return pair.select(-1, 0), pair.select(-1, 1)


def _exp(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    size = torch.exp(real)
    return torch.complex(size * torch.cos(imaginary), size * torch.sin(imaginary))


def _log(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return torch.complex(0.5 * torch.log(real**2 + imaginary**2), torch.atan2(imaginary, real))


def _conjugate(x: Tensor) -> Tensor:
    real, imaginary = _parts(x)
    return torch.complex(real, -imaginary)


def _mul(a: Any, b: Any) -> Tensor:
    if not _is_complex(a):
        a, b = b, a
    if not _is_complex(b):
        return _scaled(a, b, torch.mul)
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return torch.complex(ar * br - ai * bi, ar * bi + ai * br)


def _div(a: Any, b: Any, *, rounding_mode: None = None) -> Tensor:
    if not _is_complex(b):
        return _scaled(a, b, torch.div)
    real, imaginary = _parts(b)
    size = real**2 + imaginary**2
    return _mul(torch.complex(real / size, -imaginary / size), a)


def _add(a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    b = _mul(b, alpha) if _is_complex(b) and alpha != 1 else b * alpha if alpha != 1 else b
    (ar, ai), (br, bi) = _pair(a), _pair(b)
    return torch.complex(ar + br, ai + bi)


def _sub(a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    return _add(a, _mul(b, -alpha) if _is_complex(b) else b * -alpha)


def _einsum(equation: str, *operands: Any) -> Tensor:
    """Of two operands, by the four products of their parts."""
    terms = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if len(terms) == 1:
        return torch.complex(*(torch.einsum(equation, part) for part in _pair(terms[0])))
    (ar, ai), (br, bi) = (_pair(x) for x in terms)
    real = torch.einsum(equation, ar, br) - torch.einsum(equation, ai, bi)
    return torch.complex(real, torch.einsum(equation, ar, bi) + torch.einsum(equation, ai, br))


def _pick(x: Tensor, key: Any) -> Tensor:
    whole = key if isinstance(key, tuple) else (key,)
    more = (slice(None),) if any(part is Ellipsis for part in whole) else ()
    return torch.view_as_complex(torch.view_as_real(x)[(*whole, *more)].contiguous())


def _unsqueeze(x: Tensor, dim: int) -> Tensor:
    return torch.view_as_complex(torch.view_as_real(x).unsqueeze(dim if dim >= 0 else dim - 1))


def _irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Of a spectrum that is given whole: what is missing at its end is 0."""
    missing = 0 if n is None else n // 2 + 1 - input.shape[dim]
    if missing > 0:
        pair = torch.view_as_real(input).movedim(dim if dim >= 0 else dim - 1, -2)
        padded = torch.cat([pair, pair.new_zeros((*pair.shape[:-2], missing, 2))], -2)
        input = torch.view_as_complex(padded.movedim(-2, dim if dim >= 0 else dim - 1).contiguous())
    return torch.ops.aten.fft_irfft(input, n, dim, norm)  # type: ignore[no-any-return]


def _pair(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part of anything that may stand beside a complex tensor."""
    if _is_complex(x):
        return _parts(x) if isinstance(x, Tensor) else (x.real, x.imag)
    return x, torch.zeros_like(x) if isinstance(x, Tensor) else 0.0


def _scaled(x: Tensor, factor: Any, function: Callable[..., Tensor]) -> Tensor:
    if isinstance(factor, Tensor) and factor.dim():
        factor = factor.unsqueeze(-1)
    return torch.view_as_complex(function(torch.view_as_real(x), factor).contiguous())


def _is_complex(x: Any) -> bool:
    return x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex)


def _reversed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: function(b, a)


_T = torch.Tensor
_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    **dict.fromkeys((torch.exp, _T.exp), _exp),
    **dict.fromkeys((torch.log, _T.log), _log),
    **dict.fromkeys((torch.conj, torch.conj_physical, _T.conj, _T.conj_physical), _conjugate),
    **dict.fromkeys((torch.mul, torch.multiply, _T.mul, _T.__mul__, _T.__rmul__), _mul),
    **dict.fromkeys((torch.div, torch.divide, torch.true_divide, _T.div, _T.__truediv__), _div),
    **dict.fromkeys((torch.add, _T.add, _T.__add__, _T.__radd__), _add),
    **dict.fromkeys((torch.sub, torch.subtract, _T.sub, _T.__sub__), _sub),
    **dict.fromkeys((torch.rsub, _T.__rsub__), _reversed(_sub)),
    _T.__rtruediv__: _reversed(_div),
    **dict.fromkeys((torch.unsqueeze, _T.unsqueeze), _unsqueeze),
    _T.__getitem__: _pick,
    torch.einsum: _einsum,
    torch.fft.irfft: _irfft,
    torch.real: lambda x: _parts(x)[0],
    torch.imag: lambda x: _parts(x)[1],
}
