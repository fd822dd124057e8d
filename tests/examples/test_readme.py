"""README.md: its program runs as it stands, its table says what docs/performance.md says, its links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(line) for line in done.stdout.split()]
    assert len(losses) == 20 and losses[-1] < losses[0]
    assert (tmp_path / "net.pock").is_file()


def test_the_table_says_what_was_measured() -> None:
    document = (ROOT / "docs" / "performance.md").read_text()
    times, memory = (dict(rows(document, name)) for name in ("step-time", "step-memory"))
    shown = [cells for cells in cells_of(README) if len(cells) == 6 and cells[0] in times]
    assert len(shown) >= 6
    for name, peer, ours, ratio, pytorch, mebibytes in shown:
        *peers, engine, measured, _ = times[name]
        best = min((cell for cell in peers if cell != "–"), key=float)
        assert (peer, ours, ratio) == (best, engine.strip("*"), measured), name
        assert (pytorch, mebibytes) == (memory[name][0], memory[name][6]), name


def rows(document: str, section: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of the first table of a section: name, the other cells."""
    text = document.split(f"<!-- begin {section} -->")[1].split(f"<!-- end {section} -->")[0]
    _, _, *found = cells_of(text.strip().split("\n\n")[0])
    yield from ((cells[0], cells[1:]) for cells in found)


def cells_of(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", name):
            continue
        file = (ROOT / page.parent / name) if name else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text()), f"{page} links to {target}: there is no such heading"


def anchors(text: str) -> set[str]:
    """The names that headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
