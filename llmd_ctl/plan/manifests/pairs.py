"""Prefill and decode pods of one model against the rules of pairs.

Called by `relations`. Which pods belong together is told by their labels. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmd_ctl.errors import Place, Problem
from llmd_ctl.plan.manifests.lines import Read
from llmd_ctl.plan.manifests.recognise import Served
from llmd_ctl.plan.manifests.workload import DECODE, PREFILL, PodTemplate
from llmd_ctl.profiles.rules.pair import Pair, PairFinding, Side
from llmd_ctl.profiles.rules.pairs import check_pair

# Of these, those that both pods have agree; of pods that share none, the first of all of them.
WHOSE = ("llmd-ctl.dev/fleet", "llm-d.ai/guide", "llm-d.ai/model")
TOGETHER = (*WHOSE, "app.kubernetes.io/instance", "app")
BUILDS = "K18"  # a rule of images: it is placed there


def check_pairs(engines: Sequence[tuple[Served, Read | None]]) -> Iterator[Problem]:
    """What is wrong between each prefill and each decode pod of a model."""
    sides = [(served, read) for served, read in engines if read is not None and read.lines]
    for served, read in sides:
        for other, theirs in sides:
            here = served.manifest.here(other.manifest)
            if here and _are_pair(served.template, other.template):
                yield from _judge(served, read, other, theirs)


def _are_pair(pod: PodTemplate, other: PodTemplate) -> bool:
    """Whether one pod reads prompts for the other: both of one object, or by their labels."""
    if pod.shape.role == PREFILL:
        return pod.manifest is other.manifest and other.shape.role is None and not other.follows
    return (pod.role, other.role) == (PREFILL, DECODE) and _is_together(pod, other)


def _is_together(pod: PodTemplate, other: PodTemplate) -> bool:
    shared = [key for key in WHOSE if key in pod.labels and key in other.labels]
    if shared:
        return all(pod.labels[key] == other.labels[key] for key in shared)
    return _key(pod) == _key(other)


def _key(pod: PodTemplate) -> str:
    labels = pod.labels
    return next((f"{key}={labels[key]}" for key in TOGETHER if key in labels), "")


def _judge(prefill: Served, p: Read, decode: Served, d: Read) -> Iterator[Problem]:
    """Only what holds for whatever the accelerators are."""
    images = [str(one.image) if one.image is not None else None for one in (prefill, decode)]
    found: list[dict[str, PairFinding]] = [
        {
            each.rule.id: each
            for each in check_pair(Pair(Side(first, images[0]), Side(second, images[1])))
        }
        for first in p.lines
        for second in d.lines
    ]
    sure = set.intersection(*(set(each) for each in found))
    for rule, finding in found[0].items():
        served, read = (prefill, p) if finding.rule.on == PREFILL else (decode, d)
        unknown = p.unread | d.unread | prefill.env.opaque | decode.env.opaque
        if rule in sure and not unknown & set(finding.rule.at):
            yield _told(finding, served, read, f"{prefill.title} and {decode.title}")


def _told(finding: PairFinding, served: Served, read: Read, names: str) -> Problem:
    rule = finding.rule
    error = rule.severity == "error"
    return Problem(
        "LC3040" if error else "LC3041",
        f"{rule.id}: {names}: {finding.message}",
        _place(finding, served, read),
        None,
        finding.allowed,
        finding.remedy,
        rule.severity,
    )


def _place(finding: PairFinding, served: Served, read: Read) -> Place:
    if finding.rule.id == BUILDS:
        return served.manifest.place(served.path("image"))
    return next((read.at[name] for name in finding.rule.at if name in read.at), read.whole)
