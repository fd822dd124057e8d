"""No module of compiler, service, agent or client needs itself: the imports of modules have no circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in this order, the first one again at the end; none where there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", ["pockengine", "pock_server", "pock_agent", "pock_client"])
def test_modules_import_without_circles(package: str) -> None:
    """Imports inside of functions count; those for type checkers alone do not."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    found = circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    assert not found, f"each of these imports the one before it: {', '.join(found)}"


def test_a_circle_is_found() -> None:
    assert set(circle({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})) == {"a", "b", "c"}
