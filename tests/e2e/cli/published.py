"""The published JSON schemas, for every test that reads what a command printed."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import llmd_ctl

FOLDER = Path(llmd_ctl.__file__).parent / "cli" / "schema"


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its document's name, such as `llmd-ctl/plan/v1`."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        schema = json.loads(path.read_text())
        found[schema["properties"]["schema"]["const"]] = schema
    return found


def check(document: dict[str, Any], name: str) -> None:
    """Fail unless the document says it is `name` and keeps to that schema."""
    assert document["schema"] == name
    known = schemas()
    resources = [(s["$id"], Resource.from_contents(s)) for s in known.values()]
    validator = Draft202012Validator(known[name], registry=Registry().with_resources(resources))
    errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(document)]
    assert not errors, errors[:5]
