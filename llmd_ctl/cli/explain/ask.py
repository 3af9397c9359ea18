"""From the words of a command line to a page; a wrong word is told with what it is near to.

Called by `verb`. Each kind of thing is a row of `KINDS`: what it is, the names it has, and how its
page is made. Pure but for a local model, which the caller has read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from llmd_ctl.cli.explain.accelerator import accelerator_page
from llmd_ctl.cli.explain.asked import asked
from llmd_ctl.cli.explain.case import Case
from llmd_ctl.cli.explain.effective import of_field, of_flag
from llmd_ctl.cli.explain.engine import engine_page
from llmd_ctl.cli.explain.field import field_page, meaning_of
from llmd_ctl.cli.explain.flag import Flagged, flag_page, inside_of, removed_page, variable
from llmd_ctl.cli.explain.model import model_page
from llmd_ctl.cli.explain.page import Fact, Page, Section, said, section
from llmd_ctl.cli.explain.rule import BY_ID, error_page, rule_page
from llmd_ctl.errors import UsageError, codes
from llmd_ctl.plan.command import HUGGING_FACE
from llmd_ctl.profiles import Accelerator, Catalog, Engine, UnknownProfile, read_shape
from llmd_ctl.profiles.engine import argument_name, flag_name
from llmd_ctl.profiles.likely import told
from llmd_ctl.spec import LoadedFleet
from llmd_ctl.spec.shape import HOMES, SHAPE

ENGINE = "vllm"
CODE = re.compile(r"LC\d{4}", re.IGNORECASE)


class Question(Struct, frozen=True):
    """What is asked, and what it is asked of."""

    catalog: Catalog
    accelerator: str | None = None
    engine: str | None = None
    loaded: LoadedFleet | None = None
    cases: Sequence[Case] = field(default_factory=tuple)


class Explained(Struct, frozen=True):
    """One kind of thing that can be explained."""

    about: str
    example: str
    names: Callable[[Question], Mapping[str, str]]
    page: Callable[[str, Question], Page]


def explain(words: Sequence[str], question: Question) -> Page:
    """Explain a thing; without a name what of its kind there is, without words what kinds."""
    if not words:
        return _overview()
    kind, *names = words
    if kind not in KINDS:
        kind, names = kind_of(kind, question), list(words)
    if len(names) > 1:
        hint = f"Write one: llmd-ctl explain {kind} {names[0]}"
        raise UsageError.of("LC6004", "one thing is explained at a time", found=names[1], hint=hint)
    if not names:
        return _list(kind, question)
    page = KINDS[kind].page(names[0], question)
    return page if question.loaded is None else replace(page, file=question.loaded.source.file)


def kind_of(word: str, question: Question) -> str:
    """Return what a word without its kind is a name of. Raises `UsageError`."""
    if CODE.fullmatch(word):
        return "error"
    if word.startswith("-"):
        return "flag"
    if word.startswith(HUGGING_FACE):
        return "model"
    for kind in ("rule", "accelerator", "engine", "model"):
        if word in KINDS[kind].names(question):
            return kind
    key = word.partition("[")[0]
    if "." in word or word in SHAPE or f"spec.{key}" in SHAPE or key in HOMES:
        return "field"
    hint = "`llmd-ctl explain` alone lists what can be explained."
    raise UsageError.of(
        "LC6012", "this is no kind of thing, and no name of one", found=word,
        allowed=tuple(KINDS), hint=hint,
    )  # fmt: skip


def _overview() -> Page:
    facts = [Fact(f"explain {each.example}", each.about) for each in KINDS.values()]
    title = "what can be explained; without a name each lists its own"
    return Page("index", "explain", title, (Section("explain", tuple(facts)),))


def _list(kind: str, question: Question) -> Page:
    facts = tuple(said(name, about) for name, about in KINDS[kind].names(question).items())
    return Page("index", kind, KINDS[kind].about, (Section(f"{len(facts)} of them", facts),))


def _no(kind: str, name: str, known: Sequence[str], hint: str | None = None) -> UsageError:
    hint = hint or f"`llmd-ctl explain {kind}` lists them."
    return UsageError.of("LC6012", f"no {kind} is called so", found=name, allowed=known, hint=hint)


# --- accelerators, engines, models ---


def _accelerators(question: Question) -> dict[str, str]:
    catalog = question.catalog
    names = catalog.names("AcceleratorProfile")
    return {name: catalog.accelerator(name).spec.description for name in names}


def _accelerator(name: str, question: Question) -> Accelerator:
    try:
        return question.catalog.accelerator(name)
    except UnknownProfile as error:
        names, hint = told(name, error.known)
        raise _no("accelerator", name, names, hint) from error


def _engines(question: Question) -> dict[str, str]:
    catalog = question.catalog
    names = [name for name in catalog.names("EngineProfile") if "@" in name]
    return {name: _engine(name, question).spec.description for name in names}


def _engine(name: str | None, question: Question) -> Engine:
    engine, _, version = (name or ENGINE).partition("@")
    try:
        return question.catalog.engine(engine, version or None)
    except UnknownProfile as error:
        known = [each for each in error.known if "@" in each] or list(error.known)
        raise _no("engine", name or ENGINE, known) from error


def _models(question: Question) -> dict[str, str]:
    catalog = question.catalog
    names = catalog.names("ModelProfile")
    return {name: catalog.model(name).spec.description for name in names}


def _model(name: str, question: Question) -> Page:
    catalog, plain = question.catalog, name.removeprefix(HUGGING_FACE)
    try:
        spec = catalog.model(plain).spec
    except UnknownProfile as error:
        hint = "Of a folder with a config.json, `llmd-ctl plan` of a fleet tells the numbers."
        raise _no("model", plain, error.known, hint) from error
    size = spec.weight_bytes.value if spec.weight_bytes is not None else None
    return model_page(plain, read_shape(spec.config, catalog.families, weight_bytes=size), spec)


# --- flags ---


def _flags(question: Question) -> dict[str, str]:
    spec = _engine(question.engine, question).spec
    return {flag: f"{known.type}, in a fleet {argument_name(flag)}"
            for flag, known in spec.flags.items()}  # fmt: skip


def _flag(name: str, question: Question) -> Page:
    engine = _engine(question.engine, question)
    flag, _, inside = name.partition(".")
    found = _spelt(engine, flag)
    if found in engine.spec.removed and found not in engine.spec.flags:
        return removed_page(engine, found)
    if found not in engine.spec.flags and found not in engine.spec.reserved:
        known = (*engine.spec.flags, *engine.spec.removed)
        hint = f"`llmd-ctl explain flag --engine {engine.name}@{engine.spec.version}` lists them."
        raise _no("flag", found, known, hint)
    above, _, key = inside.rpartition(".")
    holds = inside_of(engine, found, above)
    if key and (holds is None or (holds.keys and key not in holds.keys)):
        keys = tuple(holds.keys) if holds is not None else ()
        raise _no("key", key, keys, f"`llmd-ctl explain flag {found}` lists its keys.")
    named = question.accelerator
    accelerator = _accelerator(named, question) if named is not None else None
    page = flag_page(Flagged(engine, found, inside, accelerator, question.catalog))
    return replace(page, effective=of_flag(page.name, question.cases))


def _spelt(engine: Engine, word: str) -> str:
    """The flag that a word means: with or without its dashes, an alias, or its name in a fleet."""
    for each in (word, f"--{word}", flag_name(word)):
        if each in engine.by_spelling:
            return engine.by_spelling[each]
        if each in engine.spec.removed or each in engine.spec.reserved:
            return each
    if word in engine.by_opposite:
        return engine.by_opposite[word]
    bare = word.replace("--no-", "--", 1)
    return engine.by_spelling.get(bare, word)


# --- fields ---


def _fields(_question: Question) -> dict[str, str]:
    return {path: meaning_of(path).partition(". ")[0] for path in SHAPE}


def _field(path: str, question: Question) -> Page:
    wanted = asked(path)
    page = field_page(wanted)
    if wanted.own and wanted.path.endswith(".engineArgs"):
        flag = _of_argument(wanted.own, question)
        page = replace(page, sections=(*page.sections, *flag.sections), see=(*page.see, *flag.see))
    if wanted.own and wanted.path.endswith(".env"):
        known = variable(_engine(question.engine, question), wanted.own)
        page = replace(page, sections=(*page.sections, *section("variable", known)))
    if question.loaded is None:
        return page
    return replace(page, effective=of_field(wanted, question.loaded, question.cases))


def _of_argument(name: str, question: Question) -> Page:
    """The page of the flag of a name in engineArgs, of the first engine that has it."""
    engines = [case.chosen.engine for case in question.cases if case.chosen is not None]
    if question.engine is not None or not engines:
        engines = [_engine(question.engine, question)]
    for engine in engines:
        if name in engine.by_argument:
            asked_of = replace(question, engine=f"{engine.name}@{engine.spec.version}", cases=())
            return _flag(engine.by_argument[name], asked_of)
    raise _no("argument", name, tuple(engines[0].by_argument), "`llmd-ctl explain flag` lists all.")


# --- rules and errors ---


def _rule(name: str, _question: Question) -> Page:
    if name.upper() not in BY_ID:
        raise _no("rule", name, tuple(BY_ID))
    return rule_page(BY_ID[name.upper()])


def _error(name: str, _question: Question) -> Page:
    if name.upper() not in codes():
        raise _no("error", name, tuple(codes()))
    return error_page(name.upper())


KINDS: Mapping[str, Explained] = {
    "field": Explained(
        "a key of the fleet file: what it means and allows; with --file what holds, and who set it",
        "spec.models[].variants[].replicas", _fields, _field,
    ),
    "flag": Explained(
        "a flag of an engine; with --accelerator what is legal there",
        "flag --attention-backend --accelerator amd-mi355x --engine vllm@0.32.0", _flags, _flag,
    ),
    "accelerator": Explained(
        "an accelerator: every figure with its source, and what is not known",
        "accelerator amd-mi300x", _accelerators,
        lambda name, question: accelerator_page(_accelerator(name, question)),
    ),
    "engine": Explained(
        "an engine in a version: what a plan decides by its flags, and where it runs",
        "engine vllm@0.32.0", _engines,
        lambda name, question: engine_page(_engine(name, question), question.catalog),
    ),
    "model": Explained(
        "a model: its weights, and what it keeps for each token",
        "model hf://Qwen/Qwen3-32B", _models, _model,
    ),
    "rule": Explained(
        "a rule that keeps command lines legal",
        "rule V07", lambda _: {rule.id: rule.title for rule in BY_ID.values()}, _rule,
    ),
    "error": Explained(
        "an error code",
        "LC3040", lambda _: {code: doc.meaning for code, doc in codes().items()}, _error,
    ),
}  # fmt: skip
"""By the word that stands before a name."""
