"""A kustomization: whether what it names is there. What it makes is another tool's to say.

Called by `judge` for folders that were not rendered. Pure: whether a path leads somewhere is asked
of the caller.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests.manifest import IN_PART, Manifest, Path, items, look, table, text

KUSTOMIZATION = "Kustomization"
LISTS = ("resources", "components", "bases", "crds", "configurations", "transformers")
PATCHES = ("patchesStrategicMerge", "patches", "patchesJson6902", "replacements")
# What leaves the objects of `resources` as they are.
PLAIN = frozenset({"apiVersion", "kind", "metadata", "resources", "namespace", "sortOptions"})
REMOTE = ("http://", "https://", "ssh://", "git@", "oci://", "github.com/")


def check_kustomization(
    one: Manifest, files: Sequence[str], exists: Callable[[str], bool]
) -> Iterator[Problem]:
    """Tell what it names that is not there, and where `files` are not all that it makes."""
    folder = posixpath.dirname(one.source.file)
    whole = set(table(one.data)) <= PLAIN
    for path, name in _named(one):
        target = posixpath.normpath(posixpath.join(folder, name))
        whole = whole and any(each == target or each.startswith(f"{target}/") for each in files)
        if not exists(target):
            message = (
                f"Q24: the kustomization names {name}, and nothing is there: it does not build"
            )
            hint = "Correct the path, or remove it."
            yield Problem("LC3070", message, one.place(path), name, (), hint)
    if whole:
        return
    message = f"{one.source.file} is not rendered: what it adds and patches is not judged"
    hint = "Judge what `kubectl kustomize` makes of it."
    yield Problem(IN_PART, message, one.place(()), hint=hint, severity="warning")


def fragments(one: Manifest) -> Iterator[str]:
    """The files that are patches, and no objects of their own."""
    folder = posixpath.dirname(one.source.file)
    for path, name in _named(one):
        if path[0] in PATCHES:
            yield posixpath.normpath(posixpath.join(folder, name))


def _named(one: Manifest) -> Iterator[tuple[Path, str]]:
    """Every path that it names."""
    for key in LISTS:
        for index, each in enumerate(items(one.data, key)):
            if isinstance(each, str) and not each.startswith(REMOTE) and "?ref=" not in each:
                yield (key, index), each
    for key in PATCHES:
        for index, each in enumerate(items(one.data, key)):
            name = each if isinstance(each, str) and "\n" not in each else text(each, "path")
            if name is not None:
                at: Path = (key, index) if isinstance(each, str) else (key, index, "path")
                yield at, name
    for key in ("configMapGenerator", "secretGenerator"):
        for index, each in enumerate(items(one.data, key)):
            for number, said in enumerate(items(look(each), "files")):
                if isinstance(said, str):
                    yield (key, index, "files", number), said.rpartition("=")[2]
