"""C: its types, literals and operators. The functions `pock_…` are in mathlib.py."""

from __future__ import annotations

import math

import numpy as np

from ...ir import DType
from .dialect import Dialect, Element

_COMMON = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "equal": "{0} == {1}",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_not": "{0} == 0",
    "where": "{0} ? {1} : {2}",
    "broadcast_to": "{0}",
}

_F32 = {
    **_COMMON,
    "neg": "-{0}",
    "reciprocal": "1.0f / {0}",
    "rsqrt": "1.0f / __builtin_sqrtf({0})",
    "sqrt": "__builtin_sqrtf({0})",
    "abs": "__builtin_fabsf({0})",
    "floor": "__builtin_floorf({0})",
    "ceil": "__builtin_ceilf({0})",
    "round": "__builtin_rintf({0})",
    "sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))",
    "div": "{0} / {1}",
    "maximum": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}",
    "minimum": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}",
    "exp": "pock_exp({0})",
    "log": "pock_log({0})",
    "tanh": "pock_tanh({0})",
    "sigmoid": "pock_sigmoid({0})",
    "erf": "pock_erf({0})",
    "sin": "pock_sine({0}, 0)",
    "cos": "pock_sine({0}, 1)",
    "pow": "pock_pow({0}, {1})",
    "mod": "pock_mod({0}, {1})",
    "atan": "pock_atan({0})",
    "expm1": "pock_expm1({0})",
    "log1p": "pock_log1p({0})",
    "lgamma": "pock_lgamma({0})",
    "erfinv": "pock_erfinv({0})",
}

_F64 = {
    **_COMMON,
    "neg": "-{0}",
    "reciprocal": "1.0 / {0}",
    "rsqrt": "1.0 / __builtin_sqrt({0})",
    "sqrt": "__builtin_sqrt({0})",
    "abs": "__builtin_fabs({0})",
    "floor": "__builtin_floor({0})",
    "ceil": "__builtin_ceil({0})",
    "round": "__builtin_rint({0})",
    "sign": "(double)(({0} > 0.0) - ({0} < 0.0))",
    "div": "{0} / {1}",
    "maximum": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}",
    "minimum": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}",
    "exp": "__builtin_exp({0})",
    "log": "__builtin_log({0})",
    "tanh": "__builtin_tanh({0})",
    "sigmoid": "1.0 / (1.0 + __builtin_exp(-{0}))",
    "erf": "__builtin_erf({0})",
    "sin": "__builtin_sin({0})",
    "cos": "__builtin_cos({0})",
    "pow": "__builtin_pow({0}, {1})",
    "mod": "pock_dmod({0}, {1})",
    "atan": "__builtin_atan({0})",
    "expm1": "__builtin_expm1({0})",
    "log1p": "__builtin_log1p({0})",
    "lgamma": "__builtin_lgamma({0})",
}

_INTEGER = {
    **_COMMON,
    "neg": "-{0}",
    "floor": "{0}",
    "ceil": "{0}",
    "round": "{0}",
    "div": "{0} / ({1} == 0 ? 1 : {1})",
    "maximum": "{0} > {1} ? {0} : {1}",
    "minimum": "{0} < {1} ? {0} : {1}",
    "pow": "pock_ipow({0}, {1})",
    "bitwise_not": "~{0}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
}


def _signed(bits: int) -> dict[str, str]:
    return {
        **_INTEGER,
        "abs": "{0} < 0 ? -{0} : {0}",
        "sign": "({0} > 0) - ({0} < 0)",
        "mod": "pock_imod({0}, {1})",
        "shift_left": f"(uint64_t){{1}} < {bits} ? (uint64_t){{0}} << {{1}} : 0",
        "shift_right": f"(uint64_t){{1}} < {bits} ? {{0}} >> {{1}} : {{0}} < 0 ? -1 : 0",
    }


def _unsigned(bits: int) -> dict[str, str]:
    return {
        **_INTEGER,
        "abs": "{0}",
        "sign": "{0} > 0",
        "mod": "{0} % ({1} == 0 ? 1 : {1})",
        "shift_left": f"(uint64_t){{1}} < {bits} ? (uint64_t){{0}} << {{1}} : 0",
        "shift_right": f"(uint64_t){{1}} < {bits} ? {{0}} >> {{1}} : 0",
    }


def _f32(value: float) -> str:
    return _special(value, "f") or f"{_point(str(np.float32(value)))}f"


def _f64(value: float) -> str:
    return _special(value, "") or _point(str(np.float64(value)))


def _special(value: float, suffix: str) -> str | None:
    """NaN and infinities."""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()" if math.isinf(value) else None


def _point(text: str) -> str:
    """A number's text, with a point where it would else be an integer's."""
    return text if "." in text or "e" in text else text + ".0"


def _integer(value: float) -> str:
    number = int(value)
    return "INT64_MIN" if number == -(1 << 63) else f"{number}" if abs(number) < 1 << 31 else f"INT64_C({number})"


def _unsigned_integer(value: float) -> str:
    number = int(value)
    return f"{number}u" if number < 1 << 32 else f"UINT64_C({number})"


def _truth(value: float) -> str:
    return "1" if value else "0"


C = Dialect(
    "C",
    {
        DType.F64: Element("double", _f64, _F64),
        DType.F32: Element("float", _f32, _F32),
        DType.I8: Element("int8_t", _integer, _signed(8)),
        DType.I16: Element("int16_t", _integer, _signed(16)),
        DType.I32: Element("int32_t", _integer, _signed(32)),
        DType.I64: Element("int64_t", _integer, _signed(64)),
        DType.U8: Element("uint8_t", _integer, _unsigned(8)),
        DType.U16: Element("uint16_t", _integer, _unsigned(16)),
        DType.U32: Element("uint32_t", _unsigned_integer, _unsigned(32)),
        DType.U64: Element("uint64_t", _unsigned_integer, _unsigned(64)),
        DType.BOOL: Element("uint8_t", _truth, _signed(8)),
        DType.BIT: Element("uint8_t", _truth, _signed(8)),
        DType.BF16: Element("uint16_t", str, {}),
    },
    bitcast="((union {{ {source} from; {to} to; }}){{{0}}}).to",
    library="pock_",
    widened={DType.BF16: "((union {{ uint32_t bits; float number; }}){{(uint32_t){0} << 16}}).number"},
    narrowed={DType.BF16: "pock_bf16({0})"},
)
"""The language of this backend's kernels. 16-bit floats are storage formats, of packed operands and of weights: none is
computed with here."""

c_type, literal, lowest, highest = C.type, C.literal, C.lowest, C.highest
