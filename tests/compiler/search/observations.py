"""What schemes of a model take, observed once for all tests: most searches of tests are on one of a few models."""

import json
from collections.abc import Iterator, Sequence

import pytest

from pockengine.ir import render
from pockengine.progress import Progress
from pockengine.search import Choice, Costs
from pockengine.search.costs.observed import Observed

_known: dict[tuple[object, ...], Observed] = {}


@pytest.fixture(scope="module", autouse=True)
def observations() -> Iterator[None]:
    """Keep what any estimate observes of a choice for the next one of the same model, base, target and threads."""
    observe = Costs._observed

    def observed(costs: Costs, choices: Sequence[Choice], progress: Progress) -> list[Observed]:
        space = costs.space
        about = (render(space.graph), json.dumps(space.base.to_mapping()), space.ranks)
        where = (repr(costs.target), costs.threads)
        keys = [(*about, *where, tuple(choice)) for choice in choices]
        new = {key: choice for key, choice in zip(keys, choices, strict=True) if key not in _known}
        _known.update(zip(new, observe(costs, list(new.values()), progress), strict=True))
        return [_known[key] for key in keys]

    with pytest.MonkeyPatch.context() as patch:  # for this module: others test what observing is
        patch.setattr(Costs, "_observed", observed)
        yield
