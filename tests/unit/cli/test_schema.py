"""The published schemas: well formed, one a document, and the plan's equal to its records."""

import json

import pytest
from jsonschema import Draft202012Validator

from tests.e2e.cli.published import FOLDER, schemas
from tests.unit.cli import plan_schema

DOCUMENTS = (
    "apply", "delete", "demo", "diff", "explain", "fleets", "load", "plan", "problems", "render",
    "status", "validate",
)  # fmt: skip


def test_there_is_a_schema_for_every_document() -> None:
    assert sorted(schemas()) == [f"llmd-ctl/{name}/v1" for name in DOCUMENTS]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_schema_is_one_and_allows_no_other_key(name: str) -> None:
    schema = json.loads((FOLDER / f"{name}-v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"])


def test_the_plan_schema_is_what_the_records_say() -> None:
    assert plan_schema.FILE.read_text() == plan_schema.text(), (
        "the plan's records changed: run `python -m tests.unit.cli.plan_schema`, and think about "
        "the document's version"
    )
