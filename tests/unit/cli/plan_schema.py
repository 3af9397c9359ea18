"""The plan's JSON schema, made from the records themselves.

`python -m tests.unit.cli.plan_schema` writes `llmd_ctl/cli/schema/plan-v1.json`; a test fails while
that file is not what this makes. A changed key is a new version of the document.
"""

import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import StructMeta
from pydantic.alias_generators import to_camel

import llmd_ctl
from llmd_ctl.errors import Problem
from llmd_ctl.plan import SCHEMA, Plan

FILE = Path(llmd_ctl.__file__).parent / "cli" / "schema" / "plan-v1.json"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
Json = dict[str, Any]


def schema() -> Json:
    """The whole schema: the records, `summary.changes` and `changes` as `plan` prints them."""
    shared = json.loads(FILE.with_name("diff-v1.json").read_text())["$defs"]
    problems = json.loads(FILE.with_name("problems-v1.json").read_text())["$defs"]
    definitions: Json = {**shared, **problems}
    body = _record(Plan, definitions)
    summary = definitions["Summary"]
    summary["properties"] = {"changes": {"type": "integer"}, **summary["properties"]}
    summary["required"].append("changes")
    body["properties"] |= {
        "schema": {"const": SCHEMA},
        "changes": {"type": "array", "items": {"$ref": "#/$defs/change"}},
    }
    body["required"] += ["schema", "changes"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://llmd-ctl.dev/schema/plan-v1.json",
        "title": "What would run: `llmd-ctl plan F --output json`",
        **body,
        "$defs": dict(sorted(definitions.items())),
    }


def _record(cls: Any, definitions: Json) -> Json:
    hints = get_type_hints(cls)
    fields = {to_camel(name): hints[name] for name in cls.__struct_fields__}
    return {
        "type": "object",
        "properties": {name: _hint(hint, definitions) for name, hint in fields.items()},
        "required": sorted(fields),
        "additionalProperties": False,
    }


def _hint(hint: Any, definitions: Json) -> Json:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint is Problem:
        return {"$ref": "#/$defs/problem"}
    if origin in (Union, types.UnionType):
        kinds = [_hint(arg, definitions) for arg in args]
        plain = [kind["type"] for kind in kinds if kind.keys() == {"type"}]
        return {"type": plain} if len(plain) == len(kinds) else {"anyOf": kinds}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _hint(args[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _hint(args[1], definitions)}
    if isinstance(hint, StructMeta):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__].update(_record(hint, definitions))
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": PLAIN[hint]}


def text() -> str:
    """The file's content."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
