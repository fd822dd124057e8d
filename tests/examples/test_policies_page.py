"""docs/policies.md: a device rests, tells why, and works again, as the page stands."""

from pathlib import Path

import pytest

from tests.examples.sessions import blocks, said_by


@pytest.mark.large
def test_a_device_that_rests_and_works_again(tmp_path: Path) -> None:
    lines = said_by("policies.md", tmp_path, "night.toml", "rest.toml").splitlines()
    shown, told = (block.splitlines() for block in blocks("policies.md", "text"))
    begin = lines.index(shown[0])
    assert lines[begin + 1].startswith(shown[1].removesuffix("…")) and lines[begin + 2] == shown[2]
    assert "pool kitchen: max_minutes_per_day = 0.0" in lines
    why = told[1].strip().partition(" (until")[0]
    assert why in next(line for line in lines if line.startswith("it rests: "))
    at = lines.index(told[0])
    assert any(line.strip().startswith(f"{why} (until ") for line in lines[at:]), lines[at:]
    shown_rules = lines[lines.index("the owner's pi-4/policy.toml:") + 1 :]
    assert shown_rules[2] == '  hours = ["22:00-06:30", "12:00-13:00"]' and shown_rules[5] == '  metered = "never"'
    assert told[-1] in lines[at:]
    assert lines[-3:] == [
        "the device keeps them",
        "work is allowed now",
        "nobody set a policy: docs/policies.md says how",
    ]
