"""What the results say of the search: each thing that it should show, with the figure."""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from benchmarks.document import table

from . import choosing, step_times
from .methods import AT_PUBLISHED, CRITERIA, IN_A_THIRD, RANDOM, RECOMPUTED, SPLIT, TRIED, TRIED_RECOMPUTED, USUAL
from .scores import FULL, Cell, Mean, Name, Scores, cell_of, part
from .store import Result

Line = tuple[str, str, str]
"""What is to be shown, what is asked for, what was found."""

OURS = ("found", "found-quick", "found-recompute", SPLIT, TRIED, TRIED_RECOMPUTED)
"""What the project's search can be asked for; `found` is there always."""


def evidence_table(results: Iterable[Result], rows: Sequence[Result]) -> str:
    """What is asked for beside what was found. results: all that the store has; rows: those that are compared."""
    results, scores, lines = list(results), Scores(rows), list[Line]()
    models = {row["model"] for row in rows}
    ours = [name for name in OURS if name == "found" or any(method == name for method, _ in scores.runs)]
    for share in scores.shares:
        lines += [line for name in ours for line in _full(scores, (name, share), results)]
    if any(name == IN_A_THIRD for name, _ in scores.runs):
        lines += _full(scores, (IN_A_THIRD, 1.0), results)
    lines += [line for name in ours for line in _usual(scores, name)]
    for share in scores.shares:
        lines += [_random(scores, (name, share), share) for name in ours]
        lines += [_random(scores, FULL, share)]
    lines += _published(scores)
    for share in scores.shares:
        lines += [*_evolution(scores, results, models, share), *_elsewhere(scores, share), *_adapters(scores, share)]
    lines += _times(results)
    head = ("it must show; mean over models and tasks, with 95 % intervals over these", "asked for", "found")
    return table(head, [list(line) for line in lines])


def criteria_table(rows: Iterable[Result]) -> str:
    """Ways to find contributions, compared with the default: the same choice from other gains."""
    scores = Scores(rows)
    lines = []
    for share in scores.shares:
        for method in CRITERIA:
            apart = scores.differences((method, share), ("found", share))
            if apart:
                better = sum(value > 0 for value in apart.values())
                lines.append([method, f"{share:.0%}", str(Mean.of(list(apart.values()))), part(better, len(apart))])
    if not lines:
        return ""
    return table(("contributions", "memory limit", "against found, points", "better than found, of cells"), lines)


def _points(mean: Mean) -> str:
    return f"{mean} points, {mean.count} cells" if mean.count else "–"


def _full(scores: Scores, name: Name, results: Iterable[Result]) -> Iterator[Line]:
    method, share = name
    limit = f"limit {share:.0%}" if share < 1 else "a third of full's memory"
    yield f"{method} against full, {limit}", "−0.5 points or more", _points(scores.against(name, FULL))
    for key, called, asked in (("memory", "planned memory", "33 %"), ("time", "expected step time", "50 %")):
        values = list(scores.cells(name, key).values())
        about = f"{Mean.of(values)} %, at most {100 * max(values):.0f} %" if values else "–"
        yield f"share of full's {called}, {method}, {limit}", f"≤ {asked}", about
    cells = scores.runs.get(name, {}).keys()
    ratios = [
        one["ratio"]
        for one in results
        if one.get("kind") == step_times.KIND and (one["method"], one["share"]) == name and cell_of(one) in cells
    ]
    if ratios:
        about = f"{Mean.of(ratios)} %, median {100 * statistics.median(ratios):.0f} %, {len(ratios)} cells"
        yield f"share of full's measured step time, {method}, {limit}", "≤ 50 %", about


def _usual(scores: Scores, ours: str) -> Iterator[Line]:
    """One of our methods against each thing that people write, and all of them together; where ours computes nodes
    twice to fit, so may theirs."""
    everything: dict[tuple[Cell, Name], float] = {}
    for method in (*USUAL, *(RECOMPUTED if ours in ("found-recompute", SPLIT, TRIED_RECOMPUTED) else ())):
        apart = {
            (cell, (method, share)): value
            for share in scores.shares
            for cell, value in scores.differences((ours, share), (method, share)).items()
        }
        if apart or method in USUAL:
            everything |= apart
            yield _compared(f"{ours} against {method}, all limits", apart)
    yield _compared(f"{ours} against all of these, all limits", everything)


def _compared(about: str, apart: Mapping[tuple[Cell, Name], float]) -> Line:
    asked = "better in 80 %, never worse by over 0.5 points"
    if not apart:
        return about, asked, "–"
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
    said = f"better than {mean} % of {count}, {mean.count} cells" if count else "–"
    asked = "what of it is possible" if ours == FULL else "better than 95 %"
    return f"{ours[0]} against random schemes, limit {share:.0%}", asked, said


def _published(scores: Scores) -> Iterator[Line]:
    theirs, *ours = AT_PUBLISHED
    for name, called in zip(ours, ("found", TRIED_RECOMPUTED), strict=True):
        apart = scores.differences((name, 1.0), (theirs, 1.0))
        better = sum(value >= 0 for value in apart.values())
        mean = Mean.of(list(apart.values()))
        said = f"{_points(mean)}; equal or better in {part(better, len(apart))}" if apart else "–"
        yield f"{called} against published schemes, at their memory", "equal or better", said
        memory = Mean.of(list(scores.cells((name, 1.0), "memory").values()))
        said = f"{_points(scores.against((name, 1.0), FULL))}; {memory} % of full's planned memory" if apart else "–"
        yield f"{called} against full, in the memory of published schemes", "−0.5 points or more in ≤ 33 %", said


def _evolution(scores: Scores, results: Iterable[Result], models: Container[str], share: float) -> Iterator[Line]:
    said = _points(scores.against(("found", share), ("evolution", share)))
    yield f"found against the published search, limit {share:.0%}", "equal or better", said
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


def _elsewhere(scores: Scores, share: float) -> Iterator[Line]:
    said = _points(scores.against(("found-elsewhere", share), ("found", share)))
    yield f"found on half of the tasks, used on the others, against found on each, limit {share:.0%}", "stated", said


def _adapters(scores: Scores, share: float) -> Iterator[Line]:
    said = _points(scores.against(("found-adapters", share), ("found", share)))
    yield f"found where weights may have adapters, too, against found, limit {share:.0%}", "stated", said


def _times(results: Iterable[Result]) -> Iterator[Line]:
    for one in results:
        if one.get("kind") == "search time":
            stages = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one["seconds"].items())
            asked = "≤ 10 min; by Fisher information alone ≤ 1 min"
            yield f"time to find it, {one['model']}", asked, f"{sum(one['seconds'].values()):.0f} s ({stages})"
