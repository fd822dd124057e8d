"""The math inlines keep the errors that mathlib.py states, over the whole range.

They treat infinities and NaN as numpy does.
"""

import numpy as np
import pytest
from scipy import special

from pockengine.ir import Array, Node, TensorType, Value, parse_type
from pockengine.targets import get
from tests.compiler.codegen.harness import Case, Library

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 88.8, -104.1, -90.0], np.float32)


def _log_gamma(x: Array) -> Array:
    """Of -infinity it is infinity, as in PyTorch and C."""
    return np.where(np.isneginf(x), np.inf, special.gammaln(x))


# op -> (reference in double precision, range of inputs, largest error in units in the last place, or absolute)
UNARY = {
    "exp": (np.exp, (-104.0, 88.7), 1.2),
    "log": (np.log, (1e-44, 3e38), 1.2),
    "tanh": (np.tanh, (-12.0, 12.0), 2.0),
    "sigmoid": (special.expit, (-80.0, 80.0), 2.5),
    "erf": (special.erf, (-6.0, 6.0), 1.6),
    "atan": (np.arctan, (-40.0, 40.0), 3.0),
    "expm1": (np.expm1, (-20.0, 88.7), 3.0),
    "log1p": (np.log1p, (-0.99, 1e30), 3.0),
    "lgamma": (_log_gamma, (1e-6, 200.0), 5.0),
    "erfinv": (special.erfinv, (-0.999999, 0.999999), 4.0),
}
CIRCULAR = {"sin": np.sin, "cos": np.cos}


def _points(low: float, high: float) -> Array:
    """Evenly spaced, and (where the range is positive) evenly spaced in the exponent."""
    linear = np.linspace(low, high, 200_001)
    powers = np.geomspace(max(low, 1e-44), high, 200_001)
    return np.concatenate([linear, powers]).astype(np.float32)


def _case(op: str, *inputs: Array) -> Case:
    kind = TensorType(parse_type("f32[]").dtype, inputs[0].shape)
    values = tuple(Value(f"x{i}", kind) for i in range(len(inputs)))
    return Case(Node(op, values, (Value("y", kind),)), inputs, op)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    rng = np.random.default_rng(0)
    cases = [_case(op, _points(*UNARY[op][1])) for op in UNARY]
    cases += [_case(op, np.linspace(-8192, 8192, 400_001).astype(np.float32)) for op in CIRCULAR]
    cases += [_case(op, SPECIAL) for op in (*UNARY, *CIRCULAR)]
    x = np.exp(rng.uniform(-60, 60, 200_000)).astype(np.float32) * rng.choice([1, -1], 200_000).astype(np.float32)
    y = np.where(rng.random(200_000) < 0.3, rng.integers(-5, 6, 200_000), rng.uniform(-4, 4, 200_000)).astype(
        np.float32
    )
    cases.append(_case("pow", x, y))
    grid = np.array([0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 3, -3, np.inf, -np.inf, np.nan], np.float32)
    cases.append(_case("pow", np.repeat(grid, grid.size), np.tile(grid, grid.size)))
    return Library(tmp_path_factory.mktemp("math"), cases, get("host"), threads=1, extra=("-O3",))


def _ulps(got: Array, exact: Array) -> Array:
    """Distance in units in the last place of the exact result, rounded to single precision."""
    nearest = exact.astype(np.float32)
    return np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)


@pytest.mark.parametrize("op", UNARY)
def test_error_of_functions(library: Library, op: str) -> None:
    reference, _, limit = UNARY[op]
    index = list(UNARY).index(op)
    x = library.cases[index].inputs[0]
    exact = reference(x.astype(np.float64))
    assert np.max(_ulps(library.run(index, 1)[0], exact)) <= limit


@pytest.mark.parametrize("op", CIRCULAR)
def test_error_of_circular_functions(library: Library, op: str) -> None:
    index = len(UNARY) + list(CIRCULAR).index(op)
    x = library.cases[index].inputs[0]
    assert np.max(np.abs(library.run(index, 1)[0] - CIRCULAR[op](x.astype(np.float64)))) <= 1.2e-7


@pytest.mark.parametrize("op", [*UNARY, *CIRCULAR])
def test_special_values(library: Library, op: str) -> None:
    index = len(UNARY) + len(CIRCULAR) + [*UNARY, *CIRCULAR].index(op)
    reference = UNARY[op][0] if op in UNARY else CIRCULAR[op]
    with np.errstate(all="ignore"):
        expected = reference(SPECIAL.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(library.run(index, 1)[0], expected, rtol=1e-6, atol=1e-44)


def test_power(library: Library) -> None:
    index = len(library.cases) - 2
    x, y = (a.astype(np.float64) for a in library.cases[index].inputs)
    with np.errstate(all="ignore"):
        exact = np.power(x, y)
        nearest = exact.astype(np.float32)
    got = library.run(index, 1)[0]
    normal = np.isfinite(nearest) & (np.abs(nearest) > 1.2e-38)
    assert np.max(_ulps(got[normal], exact[normal])) <= 0.6
    np.testing.assert_array_equal(np.isnan(got), np.isnan(nearest))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(nearest))


def test_power_of_special_values(library: Library) -> None:
    index = len(library.cases) - 1
    x, y = library.cases[index].inputs
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    np.testing.assert_allclose(library.run(index, 1)[0], expected, rtol=1e-6)
