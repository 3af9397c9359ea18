"""The dashboard's file: written from ci/dashboard.py, as Grafana wants it, and of metrics that are.

`tests/e2e/telemetry` runs its queries. Grafana itself is not here; what its importer needs is.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci import dashboard

Json = dict[str, Any]
METRICS = "crates/llmd-router/src"
SUFFIX = re.compile(r"_(total|bucket|sum|count)$")
# What Grafana fills in by itself.
BUILT_IN = {"__rate_interval"}
# Metrics that are on no panel, and why.
LEFT_OUT: dict[str, str] = {}


@pytest.fixture(scope="module")
def document() -> Json:
    found: Json = json.loads(dashboard.FILE.read_text())
    return found


@pytest.fixture(scope="module")
def panels(document: Json) -> list[Json]:
    found: list[Json] = document["panels"]
    return found


def graphs(panels: list[Json]) -> list[Json]:
    return [panel for panel in panels if panel["type"] != "row"]


def expressions(document: Json) -> list[str]:
    """All that is asked of the data source, for graphs and for choices."""
    found = [target["expr"] for graph in graphs(document["panels"]) for target in graph["targets"]]
    choices = document["templating"]["list"]
    return [*found, *(choice["definition"] for choice in choices if choice["type"] == "query")]


def registered(repo_root: Path) -> set[str]:
    """The names that the router's code registers, as they are written there."""
    files = (repo_root / METRICS).rglob("*.rs")
    text = "".join(path.read_text() for path in files)
    return set(re.findall(r'\bregister\(\s*"(\w+)"', text))


def test_the_file_is_what_its_program_writes() -> None:
    assert dashboard.FILE.read_text() == dashboard.text(), "run `python ci/dashboard.py`"


def test_it_can_be_imported(document: Json) -> None:
    assert document["schemaVersion"] == dashboard.SCHEMA_VERSION
    assert document["uid"]
    assert document["title"]
    assert "id" not in document, "of one Grafana's database"
    assert document["time"].keys() == {"from", "to"}
    names = [choice["name"] for choice in document["templating"]["list"]]
    assert names == ["datasource", "router", "model", "variant"]


def test_panels_have_numbers_of_their_own(panels: list[Json]) -> None:
    numbers = Counter(panel["id"] for panel in panels)
    assert set(numbers.values()) == {1}
    assert all(number > 0 for number in numbers)


def test_panels_lie_side_by_side(panels: list[Json]) -> None:
    cells: Counter[tuple[int, int]] = Counter()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= dashboard.COLUMNS
        columns = range(place["x"], place["x"] + place["w"])
        cells.update(itertools.product(columns, range(place["y"], place["y"] + place["h"])))
    assert set(cells.values()) == {1}, "two panels at one place"


def test_every_graph_says_what_it_shows(panels: list[Json]) -> None:
    for graph in graphs(panels):
        assert graph["title"]
        assert graph["description"]
        assert graph["fieldConfig"]["defaults"]["unit"]
        letters = [target["refId"] for target in graph["targets"]]
        assert letters == sorted(set(letters))
        assert all(target["expr"] and target["legendFormat"] for target in graph["targets"])


def of_key(key: str, value: object) -> Iterator[object]:
    """All that stands under a key, however deep."""
    if isinstance(value, dict):
        yield from (each for name, each in value.items() if name == key)
    for inner in value.values() if isinstance(value, dict) else ():
        yield from of_key(key, inner)
    for inner in value if isinstance(value, list) else ():
        yield from of_key(key, inner)


def test_the_data_source_is_the_one_that_is_chosen(document: Json) -> None:
    for graph in graphs(document["panels"]):
        assert graph["datasource"] == dashboard.DATASOURCE
    for source in of_key("datasource", document):
        assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_only_known_variables_are_used(document: Json) -> None:
    known = {choice["name"] for choice in document["templating"]["list"]} | BUILT_IN
    for expression in expressions(document):
        assert set(re.findall(r"\$(\w+)", expression)) <= known, expression


def test_every_metric_is_used_or_left_out_on_purpose(document: Json, repo_root: Path) -> None:
    text = " ".join(expressions(document))
    used = {SUFFIX.sub("", name) for name in re.findall(r"\bllmd_router_(\w+)", text)}
    known = registered(repo_root)
    assert used - known == set(), "no such metric"
    assert known - used == set(LEFT_OUT), "on no panel, or needlessly left out"
