"""`judge_manifests`: Kubernetes objects that somebody else wrote, to all that is wrong with them.

The one entry of this package, called by `validate --manifests`. Engines in pods are judged by the
rules of fleets, pods by those of `profiles.rules.pods`, and objects by what they say of each other
(`relations`). What could be judged only in part is named. Pure: files were read by the caller.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from llmd_ctl.errors import Place, Problem
from llmd_ctl.plan.manifests import relations
from llmd_ctl.plan.manifests.kustomization import KUSTOMIZATION, check_kustomization, fragments
from llmd_ctl.plan.manifests.lines import CONFIG, Read, findings, read_line, told
from llmd_ctl.plan.manifests.manifest import IN_PART, Manifest, read, table
from llmd_ctl.plan.manifests.recognise import Served, served_by
from llmd_ctl.plan.manifests.workload import PodTemplate, templates_of
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.rules.line import version_of
from llmd_ctl.profiles.rules.pod import Amiss, Pod, PodRule
from llmd_ctl.profiles.rules.pods import check_pod
from llmd_ctl.spec.source import SourceText

CHART = "Chart.yaml"
BROKEN, DOUBTFUL = "LC3070", "LC3071"
Exists = Callable[[str], bool]


class Found(Struct, frozen=True):
    """An engine that was found, for people and programs."""

    title: str
    engine: str
    version: str | None
    model: str | None
    accelerators: tuple[str, ...]
    place: Place


class Judgement(Struct):
    """All of it."""

    problems: list[Problem] = field(default_factory=list)
    engines: list[Found] = field(default_factory=list)
    objects: int = 0


def judge_manifests(sources: Sequence[SourceText], catalog: Catalog, exists: Exists) -> Judgement:
    """Judge the files of one folder; `exists`: whether a path from the folder leads somewhere."""
    out = Judgement()
    objects: list[Manifest] = []
    charts = {posixpath.dirname(one.file) for one in sources if _is_chart(one)}
    for chart in sorted(charts):
        out.problems.append(_not_rendered(chart, sources))
    sources = [one for one in sources if not _below(one.file, charts)]
    for source in sources:
        found, problems = read(source)
        objects += found
        out.problems += problems
    kustomized = [one for one in objects if one.kind == KUSTOMIZATION]
    for one in kustomized:
        out.problems += check_kustomization(one, [each.file for each in sources], exists)
    patches = {path for one in kustomized for path in fragments(one)}
    whole = [one for one in objects if one.source.file not in patches and one not in kustomized]
    out.objects = len(whole)
    pods = [template for one in whole for template in templates_of(one)]
    engines: list[tuple[Served, Read | None]] = []
    for template in pods:
        for served in served_by(template, whole, catalog):
            line = read_line(served, catalog)
            engines.append((served, line))
            out.engines.append(_found(served, line))
            out.problems += _of_engine(served, line)
    out.problems += relations.check(whole, pods, engines)
    if not engines:
        out.problems.append(_nothing(sources))
    return out


def _is_chart(source: SourceText) -> bool:
    return posixpath.basename(source.file) == CHART


def _below(file: str, folders: set[str]) -> bool:
    return any(file.startswith(f"{folder}/") or not folder for folder in folders)


def _not_rendered(chart: str, sources: Sequence[SourceText]) -> Problem:
    source = next(one for one in sources if one.file == posixpath.join(chart, CHART))
    message = f"{chart or '.'} is a Helm chart: its templates are no manifests, and are not judged"
    hint = "Judge what `helm template` makes of it."
    return Problem(IN_PART, message, source.place(1, 1), hint=hint, severity="warning")


def _nothing(sources: Sequence[SourceText]) -> Problem:
    message = "no pod of these manifests runs an engine that is known"
    place = sources[0].place(1, 1) if sources else None
    hint = "Give the folder that `kubectl kustomize` or `helm template` wrote to."
    return Problem(IN_PART, message, place, hint=hint, severity="warning")


def _found(served: Served, line: Read | None) -> Found:
    return Found(
        title=served.title,
        engine=served.engine,
        version=served.version,
        model=line.model if line is not None else None,
        accelerators=tuple(one.name for one in served.devices.accelerators),
        place=served.manifest.place(served.path()),
    )


def _of_engine(served: Served, line: Read | None) -> Iterator[Problem]:
    yield from _unread(served, line)
    if line is not None:
        yield from line.problems
        opaque = frozenset(served.env.opaque)
        for finding in findings(line):
            problem = told(finding, line, opaque)
            if problem is not None:
                yield problem
    for name, place, first in served.env.twice:
        message = f"Q03: the variable {name} is set in line {first.line} too: the last one counts"
        yield Problem(DOUBTFUL, message, place, hint="Keep one of the two.", severity="warning")
    yield from _labels(served)
    for rule, amiss in check_pod(pod_of(served, line)):
        yield placed(served.template, rule, amiss)


def pod_of(served: Served, line: Read | None) -> Pod:
    """A pod as rules see it."""
    lines = line.lines if line is not None else []
    return Pod(
        spec=served.template.spec,
        at=served.container,
        own=served.own,
        image=served.image,
        known=served.known,
        accelerators=served.devices.accelerators,
        asked=served.devices.asked,
        claimed=served.devices.claimed,
        nodes=served.devices.nodes,
        line=lines[0] if lines else None,
        unread=line.unread if line is not None else frozenset(),
        hosts=served.template.hosts,
        partial=served.template.shape.partial,
        follows=served.template.follows,
        env={**served.env.values, **{name: word.text for name, word in served.line.env.items()}},
    )


def placed(template: PodTemplate, rule: PodRule, amiss: Amiss) -> Problem:
    """What a rule of pods found, at its place."""
    code = BROKEN if rule.severity == "error" else DOUBTFUL
    place = template.manifest.place(template.at(*amiss.path))
    message = f"{rule.id}: {amiss.message}"
    return Problem(code, message, place, amiss.found, amiss.allowed, rule.remedy, rule.severity)


def _labels(served: Served) -> Iterator[Problem]:
    """Labels of nodes that have other accelerators, or that nobody knows."""
    for each in served.devices.strange:
        said = ", ".join(each.values)
        plain = each.key in table(served.template.spec, "nodeSelector")
        path = ("nodeSelector", each.key) if plain else ("affinity",)
        place = served.manifest.place(served.template.at(*path))
        if each.owners:
            asked = ", ".join(served.devices.asked) or "none of them"
            have = f"nodes of {each.key}: {said} have {each.owners[0]}"
            message = f"Q20: {have}, and the pod asks for {asked}"
            hint = "Select the nodes that have what is asked for."
            yield Problem(BROKEN, message, place, said, (), hint)
        else:
            message = f"{served.title}: no profile says what nodes of {each.key}: {said} have"
            hint = "Judged is what is wrong on every accelerator of that resource."
            yield Problem(IN_PART, message, place, said, (), hint, "warning")


# --- what is judged only in part ---


def _unread(served: Served, line: Read | None) -> Iterator[Problem]:
    at = served.line.words[0].place if served.line.words else served.manifest.place(served.path())

    def part(message: str, hint: str, place: Place = at) -> Problem:
        return Problem(IN_PART, message, place, hint=hint, severity="warning")

    for what, place in dict.fromkeys(served.line.unread):
        hint = "Write the value out, or judge it by hand: rules on it are left out."
        yield part(f"{what} is known only where it runs", hint, place)
    if line is None:
        hint = "Only the pod is judged: image, devices, probes, memory."
        yield part(f"{served.title}: the flags of {served.engine} are not known here", hint)
        return
    if not served.devices.accelerators:
        hint = (
            "Ask for the accelerator's resource and select its nodes; until then no rule is asked."
        )
        yield part(f"{served.title}: nothing tells the accelerator", hint)
    elif len(served.devices.accelerators) > 1:
        names = ", ".join(one.name for one in served.devices.accelerators)
        hint = f"Select its nodes by label. It may be {names}."
        message = f"{served.title}: the accelerator is one of {len(served.devices.accelerators)}"
        yield part(f"{message}; told is what is wrong on all of them", hint)
    yield from _of_words(served, line, part)


def _too_old(served: Served, line: Read) -> Iterator[Problem]:
    """An engine that is older than the first one that serves the model."""
    first, version = line.first, served.version
    if first is not None and version is not None and version_of(version) < version_of(first):
        message = f"{served.engine} {version} does not know {line.model}"
        place = served.manifest.place(served.path("image"))
        hint = "Take an image of a newer version."
        allowed = (f"{first} or newer",)
        yield Problem(BROKEN, f"V17: {message}", place, version, allowed, hint)


def _of_words(served: Served, line: Read, part: Callable[..., Problem]) -> Iterator[Problem]:
    if not line.knows_model and served.devices.accelerators:
        hint = "Told is what is wrong of any model. What depends on its shape is left out."
        named = line.model or "which is not told here"
        yield part(f"{served.title}: nothing is known of the model {named}", hint)
    yield from _too_old(served, line)
    if CONFIG in line.at:
        hint = "Write its flags into args, or judge it by hand."
        yield part(f"{served.title}: a file of flags is not read", hint, line.at[CONFIG])
    if served.version is None:
        version = line.engine.spec.version
        hint = "Name the engine's own image with its version as the tag."
        message = f"{served.title}: the image does not tell its version; taken for {version}"
        yield part(message, hint)
    elif not line.is_of_its_version:
        known = f"{line.engine.name} {line.engine.spec.version}"
        hint = f"What the rules of {known} find is told as a warning."
        message = f"{served.title}: {line.engine.name} {line.version} is judged by rules of {known}"
        yield part(message, hint)
