"""docs/reference/: what the program would write, complete, narrow, and linked to."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ci.reference import FOLDER, PAGES, accelerators, texts
from ci.reference.facts import fact_text
from ci.reference.markdown import WIDTH, anchor, item
from llmd_ctl.cli.app import command
from llmd_ctl.cli.explain.accelerator import accelerator_page
from llmd_ctl.errors import codes
from llmd_ctl.profiles import Catalog
from llmd_ctl.profiles.rules import RULES
from llmd_ctl.spec.shape import SHAPE

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return texts()


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_the_page_is_what_would_be_written(name: str, pages: Mapping[str, str]) -> None:
    assert (FOLDER / name).read_text() == pages[name], "run `ci/generate`, or `-m ci.reference`"


def test_there_is_no_other_page(pages: Mapping[str, str]) -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(pages)


def test_no_line_is_wider_than_a_page(pages: Mapping[str, str]) -> None:
    for name, text in pages.items():
        lines = (line for line in text.splitlines() if len(line.split()) > 2)
        assert [line for line in lines if len(line) > WIDTH] == [], name


def test_nothing_is_left_out(pages: Mapping[str, str]) -> None:
    catalog = Catalog()
    wanted = {
        "fleet.md": [f"**`{path.rpartition('.')[2]}`**" for path in SHAPE],
        "accelerators.md": [f"| {name} |" for name in catalog.names("AcceleratorProfile")],
        "models.md": [f"## {name}" for name in catalog.names("ModelProfile")],
        "rules.md": [f"- **{rule.id}** " for rule in RULES],
        "errors.md": [f"- **{code}** " for code in codes()],
        "cli.md": [f"## `llmd-ctl {name}`" for name in command().commands],
    }
    for name, parts in wanted.items():
        assert [part for part in parts if part not in pages[name]] == [], name


def sections(text: str) -> dict[str, str]:
    """The second headings of a page, with what stands below each."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return dict(part.split("\n", 1) for part in parts[1:])


def part_of(text: str, title: str) -> str:
    """What stands below a title in italics."""
    found = re.search(rf"^\*{re.escape(title)}\*\n\n(.*?)(?=^\*|\Z)", text, re.M | re.S)
    return found[1] if found else ""


@pytest.mark.parametrize("maker", accelerators.makers())
def test_all_that_is_known_of_an_accelerator_is_on_its_makers_page_once(
    maker: str, pages: Mapping[str, str]
) -> None:
    names = accelerators.makers()[maker]
    found = sections(pages[accelerators.file_of(maker)])
    shared = found.get(accelerators.SHARED, "")
    assert bool(shared) == (len(names) > 1)
    assert set(found) - {accelerators.SHARED} == set(names)
    for name in names:
        for part in accelerator_page(Catalog().accelerator(name)).sections:
            own, of_all = part_of(found[name], part.title), part_of(shared, part.title)
            for fact in part.facts:
                line = f"{item(fact_text(fact))}\n"
                assert (line in own) != (line in of_all), f"{name}: {fact.name}"


def test_a_page_of_accelerators_is_short_enough_to_read(pages: Mapping[str, str]) -> None:
    sizes = {name: len(text) for name, text in pages.items() if name.startswith("accelerators")}
    assert max(sizes.values()) < 100_000, sizes


def documents(root: Path) -> Iterator[Path]:
    """Every page that people read, but for those of folders that are not ours."""
    yield from root.glob("*.md")
    for folder in ("docs", "guides", "benchmarks", "images"):
        yield from (root / folder).rglob("*.md")


def test_links_lead_somewhere(repo_root: Path) -> None:
    checked = 0
    for file in documents(repo_root):
        text = FENCED.sub("", file.read_text())
        for link in LINK.findall(text):
            if "://" in link:
                continue
            path, _, part = link.partition("#")
            target = (file.parent / path) if path else file
            assert target.exists(), f"{file}: {link}"
            if part:
                titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                assert part in {anchor(title) for title in titles}, f"{file}: {link}"
            checked += 1
    assert checked >= 60


def test_the_readme_leads_to_the_index_and_the_index_to_every_page(repo_root: Path) -> None:
    assert "docs/reference/README.md" in LINK.findall((repo_root / "README.md").read_text())
    assert set(LINK.findall((FOLDER / "README.md").read_text())) == set(PAGES)
