"""`llmd-ctl` as a user types it: a process of its own, for every end-to-end test of a verb."""

import json
import subprocess
import sys
from typing import Any

from tests.e2e.cli.published import check


def start(*argv: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command; its three streams are pipes of text."""
    return subprocess.Popen(
        [sys.executable, "-m", "llmd_ctl", *map(str, argv)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def run(
    *argv: object, code: int = 0, given: str = "", seconds: float = 100
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must be `code` and no traceback."""
    process = start(*argv)
    out, err = process.communicate(given, timeout=seconds)
    assert process.returncode == code, f"{out}\n{err}"
    assert "Traceback" not in err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def document(
    *argv: object, code: int = 0, name: str | None = None, seconds: float = 100
) -> dict[str, Any]:
    """Run a command; its JSON document, checked against its schema."""
    done = run(*argv, "--output", "json", code=code, seconds=seconds)
    found: dict[str, Any] = json.loads(done.stdout)
    check(found, f"llmd-ctl/{name or argv[0]}/v1")
    return found
