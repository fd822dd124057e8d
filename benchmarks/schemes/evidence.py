"""What the results say of the search: each thing that it should show, with the figure."""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from benchmarks.document import table

from . import choosing, step_times
from .methods import (
    AT_ONCE,
    AT_PUBLISHED,
    CRITERIA,
    FOUND,
    IN_A_THIRD,
    IN_HALF_THE_TIME,
    LAST_RECOMPUTED,
    RANDOM,
    USUAL,
)
from .scores import FULL, Cell, Mean, Name, Scores, cell_of, part
from .store import Result

NOTHING = "–"
"""Of what there are no runs."""
Line = tuple[str, str, str]
"""What is to be shown, what is asked for, what was found."""

_LIMITS = {IN_A_THIRD: "a third of full's memory", IN_HALF_THE_TIME: "half of full's step time"}
"""What has a limit of its own, in words."""


def evidence_table(results: Iterable[Result], rows: Sequence[Result]) -> str:
    """What is asked for beside what was found, as far as there are runs. results: all that the store has of these
    models; rows: those that are compared."""
    results, scores = list(results), Scores(rows)
    models = {row["model"] for row in rows}
    ours = [(IN_A_THIRD, 1.0), (IN_HALF_THE_TIME, 1.0), *((FOUND, share) for share in scores.shares)]
    lines = [line for name in ours for line in _full(scores, name, results)]
    lines += _usual(scores)
    for share in scores.shares:
        lines += [_random(scores, (FOUND, share), share), _random(scores, FULL, share)]
    lines += _published(scores)
    for share in scores.shares:
        lines += [*_evolution(scores, results, models, share), *_others(scores, share)]
    lines += _times(results)
    head = ("it must show; mean over models and tasks, with 95 % intervals over these", "asked for", "found")
    return table(head, [list(line) for line in lines if line[-1] != NOTHING])


def criteria_table(rows: Iterable[Result]) -> str:
    """Ways to find contributions, compared with the default: the same choice from other gains."""
    scores = Scores(rows)
    lines = []
    for share in scores.shares:
        for method in CRITERIA:
            apart = scores.differences((method, share), (AT_ONCE, share))
            if apart:
                better = sum(value > 0 for value in apart.values())
                lines.append([method, f"{share:.0%}", str(Mean.of(list(apart.values()))), part(better, len(apart))])
    if not lines:
        return ""
    return table(("contributions", "memory limit", f"against {AT_ONCE}, points", "better, of cells"), lines)


def _points(mean: Mean) -> str:
    return f"{mean} points, {mean.count} cells" if mean.count else NOTHING


def _full(scores: Scores, name: Name, results: Iterable[Result]) -> Iterator[Line]:
    """Where there are runs of it."""
    if not (cells := scores.runs.get(name, {}).keys()):
        return
    method, share = name
    limit = _LIMITS.get(method, f"limit {share:.0%}")
    yield f"found against full, {limit}", "−0.5 points or more", _points(scores.against(name, FULL))
    for key, called, asked in (("memory", "planned memory", "33 %"), ("time", "expected step time", "50 %")):
        values = list(scores.cells(name, key).values())
        about = f"{Mean.of(values)} %, at most {100 * max(values):.0f} %"
        yield f"share of full's {called}, {limit}", f"≤ {asked}", about
    ratios = [
        one["ratio"]
        for one in results
        if one.get("kind") == step_times.KIND and (one["method"], one["share"]) == name and cell_of(one) in cells
    ]
    if ratios:
        about = f"{Mean.of(ratios)} %, median {100 * statistics.median(ratios):.0f} %, {len(ratios)} cells"
        yield f"share of full's measured step time, {limit}", "≤ 50 %", about


def _usual(scores: Scores) -> Iterator[Line]:
    """Against each thing that people write, and all of them together; at last against what nobody writes, the last
    layers where these, too, compute nodes twice to fit."""
    everything: dict[tuple[Cell, Name], float] = {}
    for method in USUAL:
        everything |= (apart := _apart(scores, method))
        yield _compared(f"found against {method}, all limits", apart)
    yield _compared("found against all of these, all limits", everything)
    if apart := _apart(scores, LAST_RECOMPUTED):
        yield _compared(f"found against {LAST_RECOMPUTED}, all limits", apart)


def _apart(scores: Scores, method: str) -> dict[tuple[Cell, Name], float]:
    """How much better what is found is than a method, by cell and limit."""
    return {
        (cell, (method, share)): value
        for share in scores.shares
        for cell, value in scores.differences((FOUND, share), (method, share)).items()
    }


def _compared(about: str, apart: Mapping[tuple[Cell, Name], float]) -> Line:
    asked = "better in 80 %, never worse by over 0.5 points"
    if not apart:
        return about, asked, NOTHING
    better = sum(value > 0 for value in apart.values())
    worse = sum(value < -0.005 for value in apart.values())
    (cell, (method, share)), least = min(apart.items(), key=lambda one: one[1])
    worst = f"least {100 * least:.1f} points ({' '.join(cell[:2])}, {method} at {share:.0%})"
    said = f"better in {part(better, len(apart))} of {len(apart)}; worse by over 0.5 in {worse}; {worst}"
    return about, asked, said


def _random(scores: Scores, ours: Name, share: float) -> Line:
    """One method against each random scheme of a limit, with the same samples and order; what is equal counts half."""
    found, beaten = scores.accuracy(ours), dict[Cell, list[float]]()
    for method, other in list(scores.runs):
        if method.startswith(RANDOM) and other == share:
            for cell, seeds in scores.accuracy((method, share)).items():
                for seed, accuracy in seeds.items():
                    if (reached := found.get(cell, {}).get(seed)) is not None:
                        beaten.setdefault(cell, []).append((reached > accuracy) + (reached == accuracy) / 2)
    count = sum(map(len, beaten.values()))
    mean = Mean.of([statistics.fmean(values) for values in beaten.values()])
    said = f"better than {mean} % of {count}, {mean.count} cells" if count else NOTHING
    asked = "what of it is possible" if ours == FULL else "better than 95 %"
    return f"{ours[0]} against random schemes, limit {share:.0%}", asked, said


def _published(scores: Scores) -> Iterator[Line]:
    theirs, ours = ((name, 1.0) for name in AT_PUBLISHED)
    apart = scores.differences(ours, theirs)
    better = sum(value >= 0 for value in apart.values())
    mean = Mean.of(list(apart.values()))
    said = f"{_points(mean)}; equal or better in {part(better, len(apart))}" if apart else NOTHING
    yield "found against published schemes, at their memory", "equal or better", said
    memory = Mean.of(list(scores.cells(ours, "memory").values()))
    said = f"{_points(scores.against(ours, FULL))}; {memory} % of full's planned memory" if apart else NOTHING
    yield "found against full, in the memory of published schemes", "−0.5 points or more in ≤ 33 %", said


def _evolution(scores: Scores, results: Iterable[Result], models: Container[str], share: float) -> Iterator[Line]:
    """Both among steps of the quickest form, which is all that the published search knows."""
    said = _points(scores.against((AT_ONCE, share), ("evolution", share)))
    yield f"{AT_ONCE} against the published search, limit {share:.0%}", "equal or better", said
    pairs = [
        (one["ours"], one["theirs"])
        for one in results
        if one.get("kind") == choosing.KIND and one["model"] in models and one["share"] == share and one["ours"]["gain"]
    ]
    if pairs:
        more = statistics.median(a["gain"] / b["gain"] - 1 for a, b in pairs if b["gain"])
        equal = sum(a["gain"] >= (b["gain"] or 0.0) * (1 - 1e-9) for a, b in pairs)
        quicker = sum(a["seconds"] <= b["seconds"] for a, b in pairs)
        seconds = [statistics.median(one["seconds"] for one in side) for side in zip(*pairs, strict=True)]
        gap = statistics.median(1 - a["gain"] / a["bound"] for a, _ in pairs)
        yield (
            f"gain of the same contributions and time, limit {share:.0%}",
            "at least as good, in less time",
            f"{100 * more:+.1f} % (median), at least as much in {equal} of {len(pairs)}; {seconds[0]:.1f} s against "
            f"{seconds[1]:.1f} s (medians), quicker in {quicker}; gap to the bound {100 * gap:.1f} % (median)",
        )


def _others(scores: Scores, share: float) -> Iterator[Line]:
    for method, about in (
        ("found-elsewhere", "found on half of the tasks, used on the others, against found on each"),
        ("found-adapters", "found where weights may have adapters, too, against found"),
        (AT_ONCE, "found among steps of the quickest form, against found"),
    ):
        said = _points(scores.against((method, share), (FOUND, share)))
        yield f"{about}, limit {share:.0%}", "stated", said


def _times(results: Iterable[Result]) -> Iterator[Line]:
    for one in results:
        if one.get("kind") == "search time":
            stages = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one["seconds"].items())
            asked = "≤ 10 min; by Fisher information alone ≤ 1 min"
            yield f"time to find it, {one['model']}", asked, f"{sum(one['seconds'].values()):.0f} s ({stages})"
