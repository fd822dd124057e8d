"""A fixed list of random cases, for running them together."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, seed, settings

from .cases import Case, cases


def drawn(count: int, number: int) -> list[Case]:
    """`count` cases of hypothesis' generator, seeded with `number`."""
    found: list[Case] = []

    @seed(number)
    @settings(
        max_examples=count, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found
