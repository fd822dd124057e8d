"""The quantiser of frozen weights, number by number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pockengine.ops.quantised import (
    BlockFormat,
    dequantize,
    quantize,
    relative_error,
    scale_numbers,
)


def to_bits(number: float, significant: int) -> float:
    """The nearest number with so many significant bits."""
    mantissa, exponent = np.frexp(np.float64(number))
    return float(np.ldexp(np.floor(np.ldexp(mantissa, significant) + 0.5), exponent - significant))


@pytest.mark.parametrize("format, largest", [(BlockFormat.INT4, 7), (BlockFormat.INT8, 127)])
@pytest.mark.parametrize("block", [16, 32])
def test_the_quantiser_number_by_number(format: BlockFormat, largest: int, block: int) -> None:
    matrix, bits = np.random.default_rng(largest).standard_normal((6, 75)).astype(np.float32), format.bits
    matrix[2, :block] = 0.0
    packed, scales = quantize(matrix, format, block)
    expected = np.zeros_like(matrix)
    for row in range(6):
        for start in range(0, 75, block):
            part = matrix[row, start : start + block]
            scale = to_bits(np.abs(part).max() / np.float32(largest), 5 if bits == 4 else 8)
            assert scale_numbers(scales)[row, start // block] == scale
            for i, number in enumerate(part):
                integer = round(float(number / np.float32(scale))) if scale else 0
                at = row, start * bits // 8 + (i % (block // 2) if bits == 4 else i)
                stored = (int(packed[at]) >> (4 * (i >= block // 2)) & 15) - 8 if bits == 4 else packed[at]
                assert stored == integer
                expected[row, start + i] = np.float32(integer) * scale
    np.testing.assert_array_equal(dequantize(packed, scales, format, block, matrix.shape), expected)
    lost = np.sqrt(np.square(expected - matrix).sum() / np.square(matrix).sum())
    assert relative_error(matrix, packed, scales, format, block) == pytest.approx(lost, rel=1e-5)


def code_of(number: float) -> int:
    """PyTorch's code of E4M3."""
    return int(torch.tensor(number).to(torch.float8_e4m3fn).view(torch.uint8))


@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 3e4])
def test_the_quantiser_of_floats_number_by_number(block: int, factor: float) -> None:
    """Codes are PyTorch's; a block's numbers reach over many binades, so that some are subnormal and some zero. A scale
    is the least of 4 significant bits that brings them within 448."""
    rng = np.random.default_rng(block)
    matrix = (rng.standard_normal((6, 75)) * 2.0 ** rng.integers(-22, 1, (6, 75)) * factor).astype(np.float32)
    matrix[2, :block] = 0.0
    packed, scales = quantize(matrix, BlockFormat.FP8, block)
    expected = np.zeros_like(matrix)
    for row in range(6):
        for start in range(0, 75, block):
            part = matrix[row, start : start + block]
            scale, least = float(scale_numbers(scales)[row, start // block]), float(np.abs(part).max()) / 448
            mantissa, exponent = np.frexp(scale)
            assert mantissa * 16 == round(mantissa * 16)
            assert least * (1 - 1e-6) <= scale and (scale == 0.0 or scale - np.ldexp(1.0, exponent - 4) < least)
            for i, number in enumerate(part):
                code = code_of(float(number / np.float32(scale))) if scale else 0
                assert packed[row, start + i] == code
                stands_for = torch.tensor(code, dtype=torch.uint8).view(torch.float8_e4m3fn).float().item()
                expected[row, start + i] = np.float32(stands_for) * np.float32(scale)
    assert ((packed & 127 > 0) & (packed & 127 < 8)).any()
    np.testing.assert_array_equal(dequantize(packed, scales, BlockFormat.FP8, block, matrix.shape), expected)
    lost = np.sqrt(np.square(expected - matrix).sum() / np.square(matrix).sum())
    assert relative_error(matrix, packed, scales, BlockFormat.FP8, block) == pytest.approx(lost, rel=1e-5)


@pytest.mark.parametrize("format, significant", [(BlockFormat.INT4, 8), (BlockFormat.INT8, 15), (BlockFormat.FP8, 8)])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e-30, 1e30])
def test_numbers_have_as_many_significant_bits_as_is_said(format: BlockFormat, significant: int, factor: float) -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32) * np.float32(factor)
    packed, scales = quantize(matrix, format, 32)
    assert format.significant_bits == significant
    numbers = dequantize(packed, scales, format, 32, matrix.shape).astype(np.float64)
    assert all(to_bits(number, significant) == number for number in numbers.reshape(-1))
    lost = np.linalg.norm(numbers - matrix.astype(np.float64)) / np.linalg.norm(matrix.astype(np.float64))
    assert lost < {BlockFormat.INT4: 0.11, BlockFormat.INT8: 0.007, BlockFormat.FP8: 0.03}[format]
