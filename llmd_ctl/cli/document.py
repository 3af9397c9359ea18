"""The JSON documents that several verbs share, under names that carry their version.

Called by the verbs and by `boundary`. Each document says its schema in its first key; the schemas
are `schema/*.json`, and a test checks what the verbs print against them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llmd_ctl.errors import Problem

Json = dict[str, Any]


def schema_name(verb: str) -> str:
    """The name of a verb's document."""
    return f"llmd-ctl/{verb}/v1"


def problems_document(problems: Iterable[Problem]) -> Json:
    """What a verb writes instead of its own document when it fails."""
    return {"schema": schema_name("problems"), "problems": [p.to_json() for p in problems]}


def validate_document(
    sources: list[str], fleets: list[Json], manifests: Json | None, problems: Iterable[Problem]
) -> Json:
    """What `validate` found. `manifests`: the folder that was judged, if one was."""
    listed = [p.to_json() for p in problems]
    return {
        "schema": schema_name("validate"),
        "valid": not any(p["severity"] == "error" for p in listed),
        "sources": sources,
        "fleets": fleets,
        "manifests": manifests,
        "problems": listed,
    }


def sarif_document(problems: Iterable[Problem], version: str) -> Json:
    """The problems as SARIF 2.1.0, for code hosts and editors."""
    from llmd_ctl.errors import codes

    listed = list(problems)
    rules = sorted({p.code for p in listed})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "llmd-ctl",
                        "version": version,
                        "rules": [
                            {
                                "id": code,
                                "shortDescription": {"text": codes()[code].meaning},
                                "help": {"text": codes()[code].hint},
                            }
                            for code in rules
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(p) for p in listed],
            }
        ],
    }


def _sarif_result(problem: Problem) -> Json:
    from llmd_ctl.errors import listing

    said = [problem.message]
    if problem.found is not None:
        said.append(f"found: {problem.found}")
    if problem.suggestion is not None:
        said.append(f"did you mean: {problem.suggestion}")
    if problem.allowed:
        said.append(f"allowed: {listing(problem.allowed, problem.found)}")
    hint = f" ({problem.remedy})" if problem.remedy else ""
    result: Json = {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": f"{'; '.join(said)}{hint}"},
    }
    if problem.place is not None:
        place = problem.place
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": place.file},
                    "region": {"startLine": place.line, "startColumn": place.column},
                }
            }
        ]
    return result
