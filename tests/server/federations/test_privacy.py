"""The privacy that noise keeps, against dp-accounting's distributions of privacy loss (version 0.6.0)."""

import pytest

from pock_server.federations.privacy import spent


@pytest.mark.parametrize(
    ("noise", "rounds", "delta", "epsilon"),
    [
        (1.0, 1, 1e-5, 4.37717810),
        (1.0, 10, 1e-5, 17.85658683),
        (5.0, 10, 1e-6, 2.92160059),
        (0.5, 100, 1e-5, 284.39184952),
        (50.0, 1, 1e-9, 0.10043631),
    ],
)
def test_it_is_what_an_accountant_says(noise: float, rounds: int, delta: float, epsilon: float) -> None:
    assert spent(noise, rounds, delta) == pytest.approx(epsilon, rel=1e-5)


def test_where_there_is_none_to_speak_of_a_bound_is_said() -> None:
    assert 633.9 < spent(0.1, 10, 1e-5) < 1.05 * 633.9
    assert spent(1e-3, 10_000, 1e-5) > 1e9


def test_it_only_grows() -> None:
    values = [spent(1.0, rounds, 1e-5) for rounds in range(0, 700, 7)]
    assert values[0] == 0 and values == sorted(values)
