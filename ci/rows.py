"""The rows of ci/images.yaml that can be run, as .github/workflows/images.yaml takes them.

`python3 ci/rows.py '["nvidia-h100"]'` prints `matrix=JSON`: of each test that needs an accelerator
the rows of those named, and of tests that differ in nothing but the accelerator one. It asks nobody
and needs PyYAML only.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parent / "images.yaml"
Json = dict[str, Any]


def runnable(rows: list[Json], accelerators: set[str]) -> list[Json]:
    """The rows for runners of the host, and for accelerators that have one."""
    found: dict[str, Json] = {}
    for row in rows:
        if row["smoke"] != "device":
            alike = {key: value for key, value in row.items() if key != "accelerator"}
            found.setdefault(json.dumps(alike), row)
        elif row["accelerator"] in accelerators:
            found[json.dumps(row)] = row
    return list(found.values())


def main() -> None:
    """Prints the matrix."""
    rows: list[Json] = yaml.safe_load(FILE.read_text())["matrix"]["include"]
    known = {row["accelerator"] for row in rows if row["smoke"] == "device"}
    try:
        named = set(json.loads(sys.argv[1]))
    except (IndexError, ValueError, TypeError):
        sys.exit("ci/rows.py: name accelerators as a list of JSON, such as '[\"nvidia-h100\"]'")
    if named - known:
        unknown = ", ".join(sorted(map(str, named - known)))
        sys.exit(f"ci/rows.py: no test for {unknown}; there are {', '.join(sorted(known))}")
    print("matrix=" + json.dumps({"include": runnable(rows, named)}))


if __name__ == "__main__":
    main()
