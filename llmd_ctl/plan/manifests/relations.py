"""What objects say of each other: selectors, ports, names, pairs of roles, versions side by side.

Called by `judge` with every object of a folder. What is named and not there may be elsewhere in the
cluster, so that is a warning; what contradicts itself is an error. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests.claims import check_claims
from llmd_ctl.plan.manifests.lines import Read
from llmd_ctl.plan.manifests.manifest import Manifest, Path, items, look, table, text, texts
from llmd_ctl.plan.manifests.pairs import check_pairs
from llmd_ctl.plan.manifests.picker import check_picker
from llmd_ctl.plan.manifests.recognise import Served
from llmd_ctl.plan.manifests.references import check_references
from llmd_ctl.plan.manifests.workload import PodTemplate
from llmd_ctl.profiles.rules.line import platform_of
from llmd_ctl.profiles.rules.probes import engine_port

Engines = Sequence[tuple[Served, Read | None]]
POOL, SERVICE = "InferencePool", "Service"
BROKEN, DOUBTFUL = "LC3070", "LC3071"


def check(
    objects: Sequence[Manifest], pods: Sequence[PodTemplate], engines: Engines
) -> Iterator[Problem]:
    """Everything between objects."""
    for one in objects:
        if one.kind in (POOL, SERVICE):
            yield from _selects(one, pods, engines)
    yield from _pools(objects, pods)
    for pod in pods:
        yield from _own_labels(pod)
        yield from check_references(pod, objects)
    yield from _versions(engines)
    yield from check_pairs(engines)
    yield from check_claims(objects)
    yield from check_picker(objects, engines)


# --- selectors ---


def selector_of(one: Manifest) -> tuple[Path, dict[str, str]]:
    """The labels by which a service or a pool finds its pods, and where they stand."""
    path: Path = ("spec", "selector")
    if isinstance(look(one.data, *path, "matchLabels"), Mapping):
        path = (*path, "matchLabels")
    return path, texts(one.data, *path)


def _selects(one: Manifest, pods: Sequence[PodTemplate], engines: Engines) -> Iterator[Problem]:
    path, labels = selector_of(one)
    if not labels or look(one.data, "spec", "type") == "ExternalName":
        return
    chosen = [pod for pod in pods if pod.manifest.here(one) and pod.selected_by(labels)]
    if not chosen:
        message = f"{one.title} selects no pod of these manifests"
        hint = "Correct the labels; where its pods are elsewhere, ignore this."
        said = ", ".join(f"{key}={value}" for key, value in labels.items())
        yield Problem(DOUBTFUL, f"Q16: {message}", one.place(path), said, (), hint, "warning")
        return
    yield from _ports(one, chosen, engines)


def _ports(one: Manifest, pods: Sequence[PodTemplate], engines: Engines) -> Iterator[Problem]:
    names = {name for pod in pods for name, _ in _declared(pod) if name is not None}
    numbers = {number for pod in pods for _, number in _declared(pod)}
    for served, read in engines:
        if served.template in pods and read is not None:
            numbers |= {engine_port(line) for line in read.lines[:1]}
    for path, port in _targets(one):
        if isinstance(port, str) and not port.isdecimal() and port not in names:
            message = f"{one.title} sends to the port {port}, which no pod of its names"
            hint = "Name a port of the pods, or give its number."
            allowed = tuple(sorted(names))
            yield Problem(BROKEN, f"Q36: {message}", one.place(path), port, allowed, hint)
        elif str(port).isdecimal() and numbers and int(port) not in numbers:
            message = f"{one.title} sends to port {port}, and its pods open {_listed(numbers)}"
            hint = "Send to a port that is open, or declare it in the pod."
            place = one.place(path)
            yield Problem(DOUBTFUL, f"Q36: {message}", place, str(port), (), hint, "warning")


def _listed(numbers: set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))


def _declared(pod: PodTemplate) -> Iterator[tuple[str | None, int]]:
    for path in pod.containers:
        for port in items(pod.spec, *path, "ports"):
            number = look(port, "containerPort")
            if type(number) is int:
                yield text(port, "name"), number


def _targets(one: Manifest) -> Iterator[tuple[Path, str | int]]:
    if one.kind == SERVICE:
        for index, port in enumerate(items(one.data, "spec", "ports")):
            key = "targetPort" if look(port, "targetPort") is not None else "port"
            value = look(port, key)
            if isinstance(value, str | int):
                yield ("spec", "ports", index, key), value
        return
    old = look(one.data, "spec", "targetPortNumber")
    if isinstance(old, int):
        yield ("spec", "targetPortNumber"), old
    for index, port in enumerate(items(one.data, "spec", "targetPorts")):
        number = look(port, "number")
        if isinstance(number, int):
            yield ("spec", "targetPorts", index, "number"), number


def _pools(objects: Sequence[Manifest], pods: Sequence[PodTemplate]) -> Iterator[Problem]:
    pools = [one for one in objects if one.kind == POOL]
    for pod in pods:
        taken = [
            one for one in pools
            if pod.manifest.here(one) and pod.selected_by(selector_of(one)[1])
        ]  # fmt: skip
        for one in taken[1:]:
            message = f"{one.title} selects the pods of {pod.title}, which {taken[0].title} has"
            hint = "Give each pool a label of its own: two pickers would not know of each other."
            place = one.place(selector_of(one)[0])
            yield Problem(BROKEN, f"Q17: {message}", place, None, (), hint)


def _own_labels(pod: PodTemplate) -> Iterator[Problem]:
    if pod.shape.selector is None:
        return
    path = (*pod.shape.selector, "matchLabels")
    labels = texts(pod.manifest.data, *path)
    if table(pod.manifest.data, *path) and not pod.selected_by(labels):
        wrong = [key for key, value in labels.items() if pod.labels.get(key) != value]
        message = f"{pod.title} selects other pods than it makes: {', '.join(wrong)}"
        place = pod.manifest.place((*path, *wrong[:1]))
        hint = "Give the template the labels that the selector asks for: it is refused otherwise."
        yield Problem(BROKEN, f"Q18: {message}", place, None, (), hint)


# --- versions side by side ---


def _versions(engines: Engines) -> Iterator[Problem]:
    """One engine on one platform in several images."""
    first: dict[tuple[str, str], tuple[Served, str]] = {}
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for served, _ in engines:
        platforms = {platform_of(one.spec) for one in served.devices.accelerators}
        if served.image is None or len(platforms) != 1:
            continue
        key = served.engine, str(platforms.pop())
        image = str(served.image)
        before = first.setdefault(key, (served, image))
        if image != before[1] and image not in told[key]:
            told[key].add(image)
            message = f"{served.title} runs {image}, and {before[0].title} {before[1]}"
            hint = "Take one version for a platform: flags, metrics and KV differ between versions."
            place = served.manifest.place(served.path("image"))
            allowed = (before[1],)
            yield Problem(DOUBTFUL, f"Q26: {message}", place, image, allowed, hint, "warning")
