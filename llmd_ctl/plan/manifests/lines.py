"""The command line of an engine in a pod against the rules of engines, by everything it may be.

Called by `judge`. Where the accelerator or the model is left open there are several lines, and a
finding counts only where every line has it. Where the image holds another version than the one
whose rules are known, what they find is a warning. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from llmd_ctl.errors import Place, Problem
from llmd_ctl.plan.flags import FlagReader, Given
from llmd_ctl.plan.manifests.command import Word
from llmd_ctl.plan.manifests.recognise import Served
from llmd_ctl.plan.report import Report
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.catalog import Catalog, UnknownProfile
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.rules import Finding, Line, check, given_of
from llmd_ctl.profiles.rules.line import version_of
from llmd_ctl.profiles.rules.pod import whole
from llmd_ctl.profiles.shape import ModelShape, read_shape
from llmd_ctl.spec.nodes import Path

# One of each class of model, for a model that is not known.
PROBES = (
    "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3.5-27B", "google/gemma-3-27b-it",
)  # fmt: skip
CONFIG = "--config"
STRAY = "LC2026"


class _Words(Struct, frozen=True):
    """A command line as what a report asks for places."""

    words: list[Word]
    whole: Place

    def place(self, path: Path, *, key: bool = False) -> Place:
        """The place of a word."""
        del key
        index = path[0] if path else None
        return self.words[index].place if isinstance(index, int) else self.whole


class Read(Struct):
    """The flags of an engine in a pod; `lines`: by everything that it may be."""

    engine: Engine
    version: str
    model: str | None = None
    knows_model: bool = False
    first: str | None = None  # the first version that serves the model
    lines: list[Line] = field(default_factory=list)
    at: dict[str, Place] = field(default_factory=dict)  # by flag and variable
    unread: frozenset[str] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    whole: Place = field(default_factory=lambda: Place("", 1, 1))

    ported: bool = False

    @property
    def is_of_its_version(self) -> bool:
        """Whether the rules are of the version that runs."""
        return self.ported or version_of(self.version) == version_of(self.engine.spec.version)


def read_line(served: Served, catalog: Catalog) -> Read | None:
    """Read an engine's words; None where its flags are not known."""
    known = _engine(served, catalog)
    if known is None:
        return None
    own = [one.spec.engines.get(served.engine) for one in served.devices.accelerators]
    known = known.with_flags({k: v for on in own if on is not None for k, v in on.flags.items()})
    engine = replace(known, spec=replace(known.spec, reserved={}, not_yet={}))
    words = served.line.own
    whole = (
        served.line.words[0].place if served.line.words else served.manifest.place(served.path())
    )
    report = Report(_Words(words, whole))
    given = FlagReader(engine, report).raw([word.text for word in words], ())
    version = served.version or known.spec.version
    read = Read(engine, version, whole=whole, ported=_ported(served))
    model = _model(given, words, served)
    read.model = model.text if model is not None and model.is_known else None
    if read.model is not None and read.model in catalog.names("ModelProfile"):
        read.knows_model = True
        read.first = catalog.model(read.model).spec.min_version.get(served.engine)
    read.unread = frozenset(_unread(words, engine))
    if read.model is None and served.line.start is not None:
        read.unread |= {served.line.start.model}
    kept = [each for each in given if each.base not in read.unread]
    read.at = {**served.env.at, **{n: w.place for n, w in served.line.env.items()}}
    for each in kept:
        read.at.setdefault(each.base, words[_index(each)].place)
    read.problems = [_graded(each, read) for each in _of_reader(report, words, model)]
    settings = {each.flag: each.value for each in kept}
    env = {**served.env.values, **{n: w.text for n, w in served.line.env.items() if w.is_known}}
    read.lines = list(_lines(read, served, catalog, given_of(settings, engine.json_flags), env))
    return read


def _engine(served: Served, catalog: Catalog) -> Engine | None:
    """The profile of the version that runs, else of the one that is known best."""
    for version in (served.version, None):
        try:
            return catalog.engine(served.engine, version)
        except UnknownProfile:
            continue
    return None


def _ported(served: Served) -> bool:
    """Whether the version is a port's own, which the best known table of flags is taken for."""
    on = [one.spec.engines.get(served.engine) for one in served.devices.accelerators]
    return bool(on) and all(each is not None and each.version == served.version for each in on)


def _index(given: Given) -> int:
    index = given.path[-1]
    return index if isinstance(index, int) else 0


def _unread(words: list[Word], engine: Engine) -> Iterator[str]:
    """The flags whose values cannot be told: of each such word, the one that it is or follows."""
    for at, word in enumerate(words):
        if not word.is_known:
            before = (one.text for one in reversed(words[: at + 1]) if one.text.startswith("-"))
            name = next(before, "").partition("=")[0].partition(".")[0].replace("_", "-")
            flag = engine.by_spelling.get(name, engine.by_opposite.get(name))
            if flag is not None:
                yield flag


def _model(given: Iterable[Given], words: list[Word], served: Served) -> Word | None:
    """The word that names the model: the flag's, else the first where it is no flag."""
    start = served.line.start
    for each in given:
        if start is not None and each.flag == start.model:
            at = _index(each)
            return Word(str(each.value), words[at].place)
    first = words[0] if words and not words[0].text.startswith("-") else None
    return first if start is not None and start.first else None


def _of_reader(report: Report, words: list[Word], model: Word | None) -> Iterator[Problem]:
    """What the reader of flags tells, but for the model and for what cannot be told."""
    silent = {(word.place.line, word.place.column) for word in words if not word.is_known}
    if model is not None:
        silent.add((model.place.line, model.place.column))
    for problem in (*report.errors, *report.warnings):
        place = problem.place
        if place is not None and (place.line, place.column) in silent:
            continue
        yield problem


def _lines(
    read: Read, served: Served, catalog: Catalog, given: Mapping[str, object],
    env: Mapping[str, str],
) -> Iterator[Line]:  # fmt: skip
    shapes = list(_shapes(read, catalog))
    for accelerator in served.devices.accelerators:
        on = accelerator.spec.engines.get(served.engine)
        if on is None:
            continue
        for name, shape in shapes:
            yield Line(
                engine=read.engine,
                on=replace(on, settings={}, env={}),
                version=read.version,
                accelerator=accelerator,
                model_uri=f"hf://{name}",
                model=shape,
                devices=_devices(served, accelerator),
                given=given,
                env=env,
            )


def _shapes(read: Read, catalog: Catalog) -> Iterator[tuple[str, ModelShape]]:
    for name in (read.model or "",) if read.knows_model else PROBES:
        yield read.model or name, read_shape(catalog.model(name).spec.config, catalog.families)


def _devices(served: Served, accelerator: Accelerator) -> int | None:
    cluster = accelerator.spec.kubernetes
    counts = [count for n in served.devices.asked.values() if (count := whole(n)) is not None]
    if cluster is None or len(counts) != 1:
        return None
    return counts[0] * cluster.resource.devices * served.template.hosts


def findings(read: Read) -> list[Finding]:
    """What every line has; told by the first."""
    found = [{each.rule.id: each for each in check(line)} for line in read.lines]
    if not found:
        return []
    sure = set.intersection(*(set(each) for each in found))
    return [each for rule, each in found[0].items() if rule in sure]


def told(finding: Finding, read: Read, opaque: frozenset[str]) -> Problem | None:
    """A finding at its place; None where it rests on what cannot be told."""
    names = [name for name in (finding.at, *finding.rule.at) if name]
    if any(name in read.unread or name in opaque for name in names):
        return None
    place = next((read.at[name] for name in names if name in read.at), read.whole)
    error = finding.rule.severity == "error"
    problem = Problem(
        "LC3040" if error else "LC3041",
        f"{finding.rule.id}: {finding.message}",
        place,
        finding.found,
        finding.allowed,
        finding.remedy,
        finding.rule.severity,
    )
    return _graded(problem, read)


def _graded(problem: Problem, read: Read) -> Problem:
    """An error by the rules of another version is a warning: it waits for the next upgrade."""
    if read.is_of_its_version or problem.severity == "warning":
        return problem
    message = f"{problem.message} (by {read.engine.name} {read.engine.spec.version})"
    code = "LC3041" if problem.code == "LC3040" else problem.code
    return replace(problem, code=code, message=message, severity="warning")
