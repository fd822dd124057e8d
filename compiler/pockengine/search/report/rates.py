"""The table of learning rates: what was tried for each group, and how well it did."""

from __future__ import annotations

from ..rates import Rates, RateTrial
from .layers import bar_cell
from .markup import Markup, element


def rates_table(rates: Rates) -> Markup:
    """A row for each rate that was tried; those that were taken are marked."""
    most = max((trial.loss for trial in rates.trials if trial.loss is not None), default=0.0)
    titles = ("group", "learning rate", "loss of what was kept back", "")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    ordered = sorted(rates.trials, key=lambda trial: (_first(rates, trial.group), trial.lr))
    rows = [_row(rates, trial, most) for trial in ordered]
    return element("table", element("thead", head), element("tbody", *rows), class_="compared")


def _row(rates: Rates, trial: RateTrial, most: float) -> Markup:
    taken = rates.lr.get(trial.group) == trial.lr
    loss = "diverged" if trial.loss is None else f"{trial.loss:.4g}"
    share = 0.0 if trial.loss is None or most <= 0 else max(trial.loss, 0.0) / most
    return element(
        "tr",
        element("th", trial.group, scope="row"),
        element("td", f"{trial.lr:g}", class_="number"),
        bar_cell(share, loss, taken),
        element("td", "taken" if taken else ""),
        class_="in" if taken else None,
    )


def _first(rates: Rates, group: str) -> int:
    """Groups in the order in which they were tried."""
    return next(place for place, trial in enumerate(rates.trials) if trial.group == group)
