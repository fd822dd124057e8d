"""Searches of tests share what they observe."""

from tests.compiler.search.observations import observations as observations
