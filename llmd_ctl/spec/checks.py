"""Rules over several fields of one fleet, and what may be left out filled in.

Called by `loader` before the types are checked, on nodes, so that these faults are told in the same
run as all others. Each check keeps quiet about what it cannot read; the types complain of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from llmd_ctl.spec import variables
from llmd_ctl.spec.fields import microseconds
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node, Path
from llmd_ctl.spec.source import dotted

MODELS: Path = ("spec", "models")
TARGETS: Path = ("spec", "targets")
INVENTORY: Path = ("spec", "inventory")

UNUSED_BESIDE_ENDPOINT = (
    "target", "replicas", "role", "topology", "deviceAllocation", "parallelism", "engineArgs",
    "extraArgs", "unsafe",
    "env", "resources", "nodeSelector", "tolerations", "imagePullSecrets", "secretRefs", "cache",
    "autoscale",
)  # fmt: skip

BREAKER: Path = ("spec", "router", "resilience", "breaker")
LIMITS: Path = ("spec", "router", "resilience", "limits")
OPEN, OPEN_MAX, DRAIN = "1s", "30s", "30s"  # the router's own defaults

OTHER_ROLE = {"prefill": "decode", "decode": "prefill"}

LOCAL_URIS = ("/", "./", "../", "file://")


def check(findings: Findings, document: Document) -> None:
    """Run every rule over a document."""
    for rule in (
        _target_names,
        _hosts,
        _secrets,
        _model_names,
        _variant_names,
        _inventory,
        _variant_targets,
        _router_target,
        _endpoints,
        _lengths,
        _revisions,
        _executables,
        _autoscale,
        _roles,
        _profiles,
        _breaker,
        _drain,
        variables.check,
    ):
        rule(findings, document)


def fill(document: Document) -> Any:
    """Return the plain data with each variant's name and target, and each item's target, said."""
    data = document.root.plain()
    root = document.root
    only = _only_target(root)
    for path, item in _each(root, INVENTORY):
        _say(data, path, item, "target", only)
    for path, variant in _variants(root):
        _say(data, path, variant, "name", variant.text("accelerator"))
        if variant.get("endpoint") is None:
            _say(data, path, variant, "target", only)
    return data


def _say(data: Any, path: Path, node: Node, key: str, value: str | None) -> None:
    if value is None or not isinstance(node.value, dict) or key in node.value:
        return
    for step in path:
        data = data[step]
    data[key] = value


def _each(root: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    for index, item in enumerate(root.items(*path)):
        yield (*path, index), item


def _variants(root: Node) -> Iterator[tuple[Path, Node]]:
    for path, model in _each(root, MODELS):
        for index, variant in enumerate(model.items("variants")):
            yield (*path, "variants", index), variant


def _only_target(root: Node) -> str | None:
    targets = root.items(*TARGETS)
    return targets[0].text("name") if len(targets) == 1 else None


def _no_repeats(
    findings: Findings, what: str, named: list[tuple[Path, str, Node]], hint: str | None = None
) -> None:
    """Complain of each name after the first of its kind."""
    first: dict[str, Node] = {}
    for path, name, node in named:
        if name in first:
            message = f'{what} "{name}" is already used in line {first[name].line}'
            findings.add("LC1060", message, node, path, found=name, hint=hint)
        else:
            first[name] = node


def _named(document: Document, items: Iterator[tuple[Path, Node]]) -> list[tuple[Path, str, Node]]:
    out = []
    for path, item in items:
        name = item.text("name")
        if name is not None:
            out.append(((*path, "name"), name, document.mark((*path, "name"))))
    return out


def _target_names(findings: Findings, document: Document) -> None:
    _no_repeats(findings, "the target name", _named(document, _each(document.root, TARGETS)))


def _hosts(findings: Findings, document: Document) -> None:
    """A host is dealt out once: two lists of it would give its devices and ports away twice."""
    root = document.root
    named = [
        (path, host.value.lower(), host)
        for target, _ in _each(root, TARGETS)
        for path, host in _each(root, (*target, "hosts"))
        if isinstance(host.value, str)
    ]
    _no_repeats(findings, "the host", named, "Name each host once, in one target.")


def _secrets(findings: Findings, document: Document) -> None:
    """A variable has one secret; a secret whose keys are all variables is listed once."""
    root = document.root
    owners: list[Path] = [("spec", "defaults"), ("spec", "router")]
    owners += [path for path, _ in (*_each(root, TARGETS), *_each(root, MODELS), *_variants(root))]
    for owner in owners:
        listed = list(_each(root, (*owner, "secretRefs")))
        variables = [
            ((*path, "env"), name, document.mark((*path, "env")))
            for path, item in listed
            if (name := item.text("env")) is not None
        ]
        _no_repeats(findings, "the variable", variables, "Take each variable from one secret.")
        whole = [(path, item) for path, item in listed if item.get("env") is None]
        _no_repeats(findings, "the secret", _named(document, iter(whole)), "List it once.")


def _model_names(findings: Findings, document: Document) -> None:
    """Names and aliases of all models are one space: a request names one of them."""
    root = document.root
    named = _named(document, _each(root, MODELS))
    for path, _ in _each(root, MODELS):
        for alias_path, alias in _each(root, (*path, "aliases")):
            if isinstance(alias.value, str):
                named.append((alias_path, alias.value, alias))
    hint = "Give each its own name; names and aliases of all models are one list."
    _no_repeats(findings, "the served name", named, hint)


def _variant_names(findings: Findings, document: Document) -> None:
    root = document.root
    for model_path, model in _each(root, MODELS):
        used = Counter(v.text("accelerator") for v in model.items("variants"))
        named = []
        for path, variant in _each(root, (*model_path, "variants")):
            accelerator = variant.text("accelerator")
            name_path: Path = (*path, "name")
            if variant.get("name") is None:
                findings.silence(name_path)
                name = accelerator if used[accelerator] == 1 else None
                if name is None and accelerator is not None:
                    message = f"several variants use {accelerator}, so each needs a name"
                    findings.add("LC1063", message, variant, name_path, found=accelerator)
            else:
                name = variant.text("name")
            if name is not None:
                named.append((name_path, name, document.mark(name_path)))
        _no_repeats(findings, "the variant name", named)


def _targets_known(document: Document) -> tuple[str, ...]:
    return tuple(name for _, name, _ in _named(document, _each(document.root, TARGETS)))


def _reference(
    findings: Findings, document: Document, path: Path, item: Node, known: tuple[str, ...]
) -> None:
    """Check the target an item names, or that it may leave it out; `known` are all targets."""
    target, target_path = item.text("target"), (*path, "target")
    if target is not None and target not in known:
        message = f'no target is named "{target}"'
        mark = document.mark(target_path)
        findings.add("LC1061", message, mark, target_path, found=target, allowed=known)
    elif item.get("target") is None and isinstance(item.value, dict):
        findings.silence(target_path)
        if len(document.root.items(*TARGETS)) > 1:
            message = f"{dotted(path)} does not say which target it is for"
            findings.add("LC1062", message, item, target_path, allowed=known)


def _inventory(findings: Findings, document: Document) -> None:
    seen: dict[tuple[str | None, str], Node] = {}
    known = _targets_known(document)
    for path, item in _each(document.root, INVENTORY):
        _reference(findings, document, path, item, known)
        accelerator = item.text("accelerator")
        if accelerator is None:
            continue
        where = (*path, "accelerator")
        place = (item.text("target") or _only_target(document.root), accelerator)
        if place in seen:
            message = f"{accelerator} of this target is already listed in line {seen[place].line}"
            findings.add("LC1067", message, document.mark(where), where, found=accelerator)
        seen.setdefault(place, item)


def _variant_targets(findings: Findings, document: Document) -> None:
    known = _targets_known(document)
    for path, variant in _variants(document.root):
        if variant.get("endpoint") is None:
            _reference(findings, document, path, variant, known)


def _router_target(findings: Findings, document: Document) -> None:
    where: Path = ("spec", "router", "target")
    known, target = _targets_known(document), document.root.text(*where)
    if target is not None and target not in known:
        message, mark = f'no target is named "{target}"', document.mark(where)
        findings.add("LC1061", message, mark, where, found=target, allowed=known)


def _endpoints(findings: Findings, document: Document) -> None:
    """What runs already is not managed: nothing that would change it is accepted."""
    for model_path, _ in _each(document.root, MODELS):
        urls: dict[str, Node] = {}
        for path, variant in _each(document.root, (*model_path, "variants")):
            if variant.get("endpoint") is None:
                continue
            beside: list[Path] = [(key,) for key in UNUSED_BESIDE_ENDPOINT]
            for steps in [*beside, ("engine", "executable"), ("engine", "image")]:
                if variant.at(steps) is not None:
                    mark = document.mark((*path, *steps), key=True)
                    message = f"{dotted(steps)} does nothing beside endpoint"
                    findings.add("LC1064", message, mark, (*path, *steps), found=dotted(steps))
            url = variant.text("endpoint", "url")
            if url is None:
                continue
            same = url.rstrip("/")
            mark = document.mark((*path, "endpoint", "url"))
            if same in urls:
                message = f"this endpoint is already given in line {urls[same].line}"
                findings.add("LC1070", message, mark, (*path, "endpoint", "url"), found=url)
            urls.setdefault(same, mark)


def _lengths(findings: Findings, document: Document) -> None:
    for model_path, model in _each(document.root, MODELS):
        most = model.number("maxModelLen")
        for path, variant in _each(document.root, (*model_path, "variants")):
            length = variant.number("maxModelLen")
            if most and length and 0 < most < length:
                where = (*path, "maxModelLen")
                message = f"maxModelLen {length} is above the model's {most}"
                findings.add(
                    "LC1065", message, document.mark(where), where,
                    found=str(length), allowed=(f"1 to {most}",),
                )  # fmt: skip


def _revisions(findings: Findings, document: Document) -> None:
    for path, model in _each(document.root, MODELS):
        uri = model.text("uri")
        if uri and uri.startswith(LOCAL_URIS) and model.at(("revision",)) is not None:
            where = (*path, "revision")
            mark = document.mark(where, key=True)
            found = "revision"
            findings.add("LC1066", "a local model has no revision", mark, where, found=found)


def _executables(findings: Findings, document: Document) -> None:
    owners: list[Path] = [("spec", "defaults")]
    owners += [path for path, _ in _each(document.root, MODELS)]
    owners += [path for path, _ in _variants(document.root)]
    for owner in owners:
        where: Path = (*owner, "engine", "executable")
        simulated = document.root.text(*owner, "engine", "name") == "sim"
        if simulated and document.root.at(where) is not None:
            mark = document.mark(where, key=True)
            message = "the simulated engine has no executable"
            findings.add("LC1069", message, mark, where, found="executable")


def _autoscale(findings: Findings, document: Document) -> None:
    """One level says how many replicas there are in one way."""
    for path, variant in _variants(document.root):
        if variant.get("autoscale") is not None and variant.get("replicas") is not None:
            where = (*path, "replicas")
            mark = document.mark(where, key=True)
            message = "replicas does nothing beside autoscale, which says how many there are"
            findings.add("LC1074", message, mark, where, found="replicas")


def _roles(findings: Findings, document: Document) -> None:
    """Prefill and decode need each other, and what joins them needs both."""
    for model_path, model in _each(document.root, MODELS):
        named = {
            role: (*path, "role")
            for path, variant in _each(document.root, (*model_path, "variants"))
            if (role := variant.text("role")) in OTHER_ROLE
        }
        for role, where in named.items():
            if OTHER_ROLE[role] not in named:
                message = f"no variant of the model has the role {OTHER_ROLE[role]}"
                findings.add("LC1075", message, document.mark(where), where, found=role)
        if model.get("disaggregation") is not None and not named:
            where = (*model_path, "disaggregation")
            message = "disaggregation does nothing: no variant of the model has a role"
            mark, found = document.mark(where, key=True), "disaggregation"
            findings.add("LC1075", message, mark, where, found=found)


def _profiles(findings: Findings, document: Document) -> None:
    listed = _each(document.root, ("spec", "profiles"))
    named = [(path, item.value, item) for path, item in listed if isinstance(item.value, str)]
    _no_repeats(findings, "the profile file", named, "List each file once.")


def _breaker(findings: Findings, document: Document) -> None:
    """The longest time is not below the first, said or not; told in the units that were written."""
    first, longest = (document.root.text(*BREAKER, key) for key in ("open", "openMax"))
    open_us, most_us = microseconds(first or OPEN), microseconds(longest or OPEN_MAX)
    if open_us is None or most_us is None or open_us <= most_us:
        return
    said = f"openMax is {longest or f'{OPEN_MAX} (the default)'}"
    message = f"breaker: {said}, but open is {first or f'{OPEN} (the default)'}"
    where = (*BREAKER, "openMax" if longest else "open")
    allowed = f"{first or OPEN} to 24h" if longest else f"1ms to {OPEN_MAX}"
    mark, found = document.mark(where), longest or first
    findings.add("LC1072", message, mark, where, found=found, allowed=(allowed,))


def _drain(findings: Findings, document: Document) -> None:
    """A drain that is cut off before it could be quiet would never end by itself."""
    quiet, limit = (document.root.text(*LIMITS, key) for key in ("quiet", "drain"))
    quiet_us, drain_us = microseconds(quiet or "0s"), microseconds(limit or DRAIN, or_none=True)
    if quiet_us is None or drain_us is None or quiet_us < drain_us:
        return
    message = f"limits: quiet is {quiet}, but drain is {limit or f'{DRAIN} (the default)'}"
    where = (*LIMITS, "quiet")
    allowed = f"0s, or less than {limit or DRAIN}"
    mark = document.mark(where)
    findings.add("LC1076", message, mark, where, found=quiet, allowed=(allowed,))
