"""What a federation has told of one device, as (epsilon, delta) differential privacy.

Each round adds Gaussian noise to a sum of clipped updates. Rounds of the same noise compose to one Gaussian mechanism,
whose privacy is known exactly (Balle and Wang 2018, theorem 8), so nothing is lost to a bound. That a round takes only
some of the devices is not counted: who is online is no secret draw (docs/adr/0013-privacy-of-federations.md).
"""

import math

_EXACT_UP_TO = 25.0
"""Of the signal in deviations of the noise; beyond, a bound says as much, and the exponentials would overflow."""


def spent(noise: float, rounds: int, delta: float) -> float:
    """Epsilon after so many rounds. `noise`: its deviation in clip norms, above 0; `delta` between 0 and 1."""
    signal = math.sqrt(rounds) / noise
    upper = signal * signal / 2 + signal * math.sqrt(2 * math.log(1 / delta))
    if rounds == 0 or signal > _EXACT_UP_TO:
        return upper if rounds else 0.0
    lower = 0.0
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if _delta(middle, signal) > delta else (lower, middle)
    return upper


def _delta(epsilon: float, signal: float) -> float:
    """The smallest delta for which a Gaussian mechanism of this signal has this epsilon."""
    shift = epsilon / signal
    return _normal(signal / 2 - shift) - math.exp(min(epsilon, 700.0)) * _normal(-signal / 2 - shift)


def _normal(value: float) -> float:
    """The distribution function of the standard normal distribution."""
    return math.erfc(-value / math.sqrt(2)) / 2
