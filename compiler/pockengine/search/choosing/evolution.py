"""The search as it was published for tiny devices: evolution of schemes whose contributions add up (arXiv 2206.15472).

A genome says of how many of the last layers the vectors are trained (biases, and scales of norms), and the share of
each weight. The publication gives no sizes of its populations; those here are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..space import Choice, Space, Unit
from .problem import Gains, gain_of

Genome = tuple[int, ...]
"""The number of last layers whose vectors are trained, then the option of each weight."""

_TRIES = 50
"""Attempts at a child that keeps to the limits, before its parent goes on in its place."""


@dataclass(frozen=True)
class Evolution:
    """How schemes evolve.

    population   schemes of one generation
    generations  after the first
    kept         the best of a generation, which go on and are parents
    mutation     the chance of each gene to be drawn anew"""

    population: int = 100
    generations: int = 30
    kept: int = 25
    mutation: float = 0.1


def evolve(
    space: Space, gains: Gains, allows: Callable[[Choice], bool], seed: int = 0, evolution: Evolution | None = None
) -> Choice | None:
    """The best choice that was met and that `allows` admits; None where there was none. The same seed gives the same
    choice."""
    return _Run(space, gains, allows, np.random.default_rng(seed), evolution or Evolution()).best()


class _Run:
    def __init__(
        self,
        space: Space,
        gains: Gains,
        allows: Callable[[Choice], bool],
        rng: np.random.Generator,
        evolution: Evolution,
    ) -> None:
        self.units, self.gains, self.allows, self.rng, self.evolution = space.units, gains, allows, rng, evolution
        self.weights = [place for place, unit in enumerate(space.units) if unit.is_weight]
        self.layers = _layers(space.units)
        self.admitted: dict[Genome, bool] = {}

    def best(self) -> Choice | None:
        """Generation after generation."""
        population = self._first()
        if not population:
            return None
        for _ in range(self.evolution.generations):
            parents = sorted(population, key=self._gain, reverse=True)[: self.evolution.kept]
            wanted = self.evolution.population - len(parents)
            mutants = [self._child(parents, crossed=False) for _ in range(wanted // 2)]
            population = parents + mutants + [self._child(parents, crossed=True) for _ in range(wanted - len(mutants))]
        return self._choice(max(population, key=self._gain))

    def _first(self) -> list[Genome]:
        """Random genomes; what breaks a limit has genes taken out until it does not."""
        found = []
        for _ in range(self.evolution.population):
            genome: Genome | None = self._random()
            while genome is not None and not self._fits(genome):
                genome = self._less(genome)
            if genome is not None:
                found.append(genome)
        return found

    def _random(self) -> Genome:
        weights = (self.rng.integers(len(self.units[place].shares)) for place in self.weights)
        return (int(self.rng.integers(len(self.layers) + 1)), *(int(index) for index in weights))

    def _less(self, genome: Genome) -> Genome | None:
        """One gene lower; None where none is left."""
        genes = [place for place, gene in enumerate(genome) if gene]
        if not genes:
            return None
        place = genes[int(self.rng.integers(len(genes)))]
        lower = int(self.rng.integers(genome[place]))
        return (*genome[:place], lower, *genome[place + 1 :])

    def _child(self, parents: list[Genome], crossed: bool) -> Genome:
        """Of one parent with genes drawn anew, or of the genes of two."""
        one = parents[int(self.rng.integers(len(parents)))]
        for _ in range(_TRIES):
            other = parents[int(self.rng.integers(len(parents)))] if crossed else self._random()
            share = 0.5 if crossed else self.evolution.mutation
            from_other = self.rng.random(len(one)) < share
            child = tuple(b if taken else a for a, b, taken in zip(one, other, from_other, strict=True))
            if self._fits(child):
                return child
        return one

    def _fits(self, genome: Genome) -> bool:
        if genome not in self.admitted:
            choice = self._choice(genome)
            self.admitted[genome] = any(choice) and self.allows(choice)
        return self.admitted[genome]

    def _gain(self, genome: Genome) -> float:
        return gain_of(self.gains, self._choice(genome))

    def _choice(self, genome: Genome) -> Choice:
        last, *options = genome
        choice = [0] * len(self.units)
        for place, index in zip(self.weights, options, strict=True):
            choice[place] = index
        for layer in self.layers[len(self.layers) - last :]:
            for place in layer:
                choice[place] = len(self.units[place].shares) - 1
        return tuple(choice)


def _layers(units: tuple[Unit, ...]) -> list[list[int]]:
    """The vectors of each layer, in model order."""
    layers: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        if not unit.is_weight:
            layers.setdefault(unit.module, []).append(place)
    return list(layers.values())
