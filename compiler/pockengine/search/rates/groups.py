"""Parameters that share a learning rate: the recipe's own groups, or the head, biases and norms, weights, adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...recipe import Optimizer
from ...recipe.groups import Group, first_match
from ..contributions.trainer import head_start
from ..space import Choice, Space, Unit
from ..writing import few_patterns

HEAD, VECTORS, WEIGHTS, ADAPTERS, OTHERS = "head", "biases and norms", "weights", "adapters", "all others"


@dataclass(frozen=True)
class RateGroups:
    """
    optimizer  the recipe's, with groups by which each of `members` has rates of its own
    members    name of a group -> the trained parameters that it has, one at least. What no group of the optimizer has
               comes last
    own        whether the groups are the recipe's"""

    optimizer: Optimizer
    members: Mapping[str, tuple[str, ...]]
    own: bool

    @classmethod
    def of(cls, space: Space, choice: Choice) -> RateGroups:
        """The groups of the base recipe, if it has some, and what they leave; else the head, biases and norms before
        it, weights before it, and low-rank adapters."""
        trained = {
            name: unit for unit, option in zip(space.units, choice, strict=True) for name in unit.trained(option)
        }
        optimizer = space.base.optimizer
        if optimizer.groups:
            filled = tuple(replace(one, lr=optimizer.lr if one.lr is None else one.lr) for one in optimizer.groups)
            patterns = [one.params for one in filled]
            labels = {name: first_match(name, patterns) or OTHERS for name in trained}
            return cls(replace(optimizer, groups=filled), _members(labels, [*patterns, OTHERS]), True)
        head = set(space.units[head_start(space) :])
        labels = {name: _label(name, unit, unit in head) for name, unit in trained.items()}
        members = _members(labels, [HEAD, VECTORS, WEIGHTS, ADAPTERS])
        return cls(_separate(optimizer, labels, list(members)[-1]), members, False)

    def rate(self, name: str) -> float:
        """What the recipe says of a group."""
        return self.optimizer.rates_of(self.members[name][0])[0]

    def states(self, rates: Mapping[str, float]) -> dict[str, float]:
        """The states of a step with adjustable rates, for these rates of groups."""
        return {self.optimizer.rate_state(param): rate for name, rate in rates.items() for param in self.members[name]}

    def written(self, rates: Mapping[str, float]) -> Optimizer:
        """The optimizer of a recipe with these rates of groups, in as few groups as were found."""
        if self.own:
            lr = rates.get(OTHERS, self.optimizer.lr)
            groups = [replace(one, lr=rates.get(one.params, one.lr)) for one in self.optimizer.groups]
            return replace(self.optimizer, lr=lr, groups=tuple(groups))
        parts = {param: rates[name] for name, params in self.members.items() for param in params}
        usual = max(rates.values(), key=list(parts.values()).count)
        return replace(self.optimizer, lr=usual, groups=_groups(parts, usual))


def _label(name: str, unit: Unit, in_head: bool) -> str:
    if name != unit.name:
        return ADAPTERS
    return HEAD if in_head else WEIGHTS if unit.is_weight else VECTORS


def _members(labels: Mapping[str, str], order: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name of a group -> its parameters, without empty groups."""
    found = {name: tuple(param for param, label in labels.items() if label == name) for name in dict.fromkeys(order)}
    return {name: params for name, params in found.items() if params}


def _separate(optimizer: Optimizer, labels: Mapping[str, str], rest: str) -> Optimizer:
    """With groups for all names but one, each at the optimizer's rate."""
    patterns = few_patterns(list(labels), {param: label for param, label in labels.items() if label != rest})
    return replace(optimizer, groups=tuple(Group(pattern, lr=optimizer.lr) for pattern, _ in patterns))


def _groups(rates: Mapping[str, float], usual: float) -> tuple[Group, ...]:
    """Groups for all parameters that have another rate than the usual one."""
    patterns = few_patterns(list(rates), {param: rate for param, rate in rates.items() if rate != usual})
    return tuple(Group(pattern, lr=rate) for pattern, rate in patterns)
