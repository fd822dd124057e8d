"""The `pock` command in the test's own process."""

from __future__ import annotations

import sys

import pytest

from pockengine.cli import main


def pock(
    *arguments: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `pock ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["pock", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit:
        main()
    captured = capsys.readouterr()
    return int(exit.value.code or 0), captured.out, captured.err
