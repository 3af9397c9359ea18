"""A variable of the environment that a fleet says twice: by value and by secret.

Called by `checks`, on nodes. Levels are laid over each other as `plan.placement` does: of `env`
each key of every level counts, of `secretRefs` the list of the highest level that has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node, Path

DEFAULTS: Path = ("spec", "defaults")
MODELS: Path = ("spec", "models")
TARGETS: Path = ("spec", "targets")
ROUTER: Path = ("spec", "router")


def check(findings: Findings, document: Document) -> None:
    """Complain of each variable that has two values."""
    for levels in _owners(document.root):
        lists = [level for level in levels if _lists_secrets(document.root, level)]
        if lists:
            _check(findings, document, levels, (*lists[-1], "secretRefs"))


def _lists_secrets(root: Node, level: Path) -> bool:
    found = root.at((*level, "secretRefs"))
    return found is not None and isinstance(found.value, list)


def _check(findings: Findings, document: Document, levels: Sequence[Path], secrets: Path) -> None:
    taken: dict[str, Node] = {}
    for level in levels:
        env = document.root.at((*level, "env"))
        if env is not None and isinstance(env.value, dict):
            taken |= {name: document.mark((*level, "env", name), key=True) for name in env.value}
    for index, secret in enumerate(document.root.items(*secrets)):
        name = secret.text("env")
        if name is None:
            continue
        where = (*secrets, index, "env")
        if name in taken:
            message = f"{name} has a value already, by line {taken[name].line}"
            findings.add("LC1077", message, document.mark(where), where, found=name)


def _owners(root: Node) -> Iterator[tuple[Path, ...]]:
    """The levels of every variant, and of the router: the lowest first."""
    targets = [one.text("name") for one in root.items(*TARGETS)]

    def there(name: str | None) -> tuple[Path, ...]:
        found = targets.index(name) if name in targets else 0
        return ((*TARGETS, found),) if name in targets or len(targets) == 1 else ()

    for number, model in enumerate(root.items(*MODELS)):
        for index, variant in enumerate(model.items("variants")):
            if variant.get("endpoint") is not None:
                continue  # it runs already
            path: Path = (*MODELS, number)
            target = there(variant.text("target"))
            yield (DEFAULTS, *target, path, (*path, "variants", index))
    yield (*there(root.text(*ROUTER, "target") or next(iter(targets), None)), ROUTER)
