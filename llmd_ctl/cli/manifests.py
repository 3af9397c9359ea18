"""A folder of Kubernetes manifests for `validate --manifests`: read, and what is wrong with it.

Called by `validate`. It reads files below the folder and nothing else; what is wrong with them is
told by `plan.manifests`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmd_ctl.errors import Problem, SpecInvalid, UsageError

if TYPE_CHECKING:
    from llmd_ctl.plan.manifests import Judgement
    from llmd_ctl.spec.source import SourceText

ENDINGS = (".yaml", ".yml", ".json")
MOST_FILES = 5_000


def judge_folder(folder: str) -> tuple[dict[str, Any], list[Problem], int]:
    """Judge a folder: what was found in it, what is wrong, and the exit code."""
    from llmd_ctl.plan.manifests import judge_manifests
    from llmd_ctl.profiles import Catalog

    sources, problems = _read(folder)
    judged = judge_manifests(sources, Catalog.load(), os.path.exists)
    problems += judged.problems
    return _document(folder, len(sources), judged), problems, _exit_code(problems)


def _exit_code(problems: list[Problem]) -> int:
    """65 where words are wrong, 66 where they are right and cannot work."""
    errors = [problem.code for problem in problems if problem.severity == "error"]
    if not errors:
        return 0
    return 65 if any(code.startswith(("LC10", "LC20")) for code in errors) else 66


def _read(folder: str) -> tuple[list[SourceText], list[Problem]]:
    from llmd_ctl.spec.source import read_source

    root = Path(folder)
    if not folder or not root.is_dir():
        hint = "Give the folder that `kubectl kustomize` or `helm template` wrote to."
        raise UsageError.of("LC6004", "--manifests takes a folder", found=folder, hint=hint)
    sources: list[SourceText] = []
    problems: list[Problem] = []
    for path in _files(root):
        try:
            sources.append(read_source(os.path.normpath(path)))
        except SpecInvalid as error:
            problems += error.problems
    if not sources and not problems:
        raise UsageError.of("LC6004", "the folder holds no YAML file", found=folder)
    return sources, problems


def _files(root: Path) -> list[Path]:
    """The manifests below a folder, sorted; hidden folders, sockets and pipes are left alone."""
    found: list[Path] = []
    for at, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = [Path(at) / name for name in sorted(names) if name.endswith(ENDINGS)]
        found += [path for path in paths if path.is_file() or not path.exists()]
        if len(found) > MOST_FILES:
            message = f"the folder holds more than {MOST_FILES} manifests"
            raise UsageError.of("LC6004", message, found=str(root), hint="Judge it part by part.")
    return found


def _document(folder: str, files: int, judged: Judgement) -> dict[str, Any]:
    engines = [
        {
            "title": one.title,
            "file": one.place.file,
            "engine": one.engine,
            "version": one.version,
            "model": one.model,
            "accelerators": list(one.accelerators),
        }
        for one in judged.engines
    ]
    return {"folder": folder, "files": files, "objects": judged.objects, "engines": engines}
