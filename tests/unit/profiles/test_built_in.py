"""What comes with llmd-ctl obeys the rules that a user's profile has to obey, and cites."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import llmd_ctl.profiles
from llmd_ctl.profiles import Catalog, UnknownProfile
from llmd_ctl.profiles.accelerator import AcceleratorSpec
from llmd_ctl.profiles.built_in import APART, BESIDE, BUILT_IN, FAMILY
from llmd_ctl.profiles.document import Checker
from llmd_ctl.profiles.kernel import Kernel
from llmd_ctl.profiles.number import Cited, Number
from llmd_ctl.profiles.user_file import BODIES
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.source import read_source

ROOT = Path(llmd_ctl.profiles.__file__).parent
CATALOG = Catalog.load()
BESIDE_FILES = tuple(f"{table}.yaml" for table in BESIDE)
FILES = sorted(
    path
    for path in ROOT.glob("*/*.yaml")
    if not path.name.endswith(BESIDE_FILES) and path.stem not in APART
)
KINDS = {**BODIES, FAMILY: AcceleratorSpec}
ACCELERATORS = (
    "amd-mi300x", "amd-mi325x", "amd-mi355x", "ascend-910b", "ascend-910c", "aws-inf2", "aws-trn2",
    "cpu-arm", "cpu-x86", "google-tpu-v5e", "google-tpu-v5p", "google-tpu-v6e", "google-tpu-v7x",
    "intel-arc-b60", "intel-gaudi2", "intel-gaudi3", "intel-max-1550", "nvidia-a100",
    "nvidia-a100-40", "nvidia-a100-pcie", "nvidia-b200", "nvidia-b300", "nvidia-gb200",
    "nvidia-gb300", "nvidia-gh200", "nvidia-h100", "nvidia-h100-pcie", "nvidia-h200", "nvidia-l4",
    "nvidia-l40s", "nvidia-rtx-pro-6000", "rebellions-atom",
)  # fmt: skip


def figures(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        cited = "source" in node and path != ".spec"  # a model's config has one source, above it
        if cited or ("value" in node and "unit" in node):
            yield path, node
        for key, child in node.items():
            yield from figures(child, f"{path}.{key}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_built_in_profile_is_as_strict_as_a_users(path: Path) -> None:
    source = read_source(path)
    findings = Findings(source)
    (document,) = compose(findings)
    data = document.root.plain()
    partial = "extends" in data or data["kind"] == FAMILY
    assert Checker(findings, document, partial=partial).check(KINDS[data["kind"]], ("spec",))
    assert findings.problems() == []


class AttentionTable(Struct, frozen=True):
    """The whole of an engine's table of attention backends."""

    source: str
    attention: Mapping[str, tuple[Kernel, ...]]


def test_a_table_of_attention_backends_is_as_strict_as_a_profile() -> None:
    tables = list(ROOT.glob("engines/*.attention.yaml"))
    assert tables
    for path in tables:
        findings = Findings(read_source(path))
        (document,) = compose(findings)
        rows = document.root.at(("attention",))
        assert rows is not None
        assert isinstance(rows.value, dict)
        for name in [name for name, row in rows.value.items() if row.value is None]:
            del rows.value[name]  # a backend that this version has not
        assert Checker(findings, document, partial=False).check(AttentionTable, ())
        assert findings.problems() == []
        for where, row in figures(document.root.plain()["attention"]):
            assert row.get("confidence") in {"high", "medium", "low"}, where


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_figure_has_a_source_and_a_confidence(path: Path) -> None:
    findings = Findings(read_source(path))
    (document,) = compose(findings)
    for where, figure in figures(document.root.plain()):
        assert str(figure.get("source", "")).strip(), where
        assert figure.get("confidence") in {"high", "medium", "low"}, where


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_derived_is_not_of_high_confidence(path: Path) -> None:
    findings = Findings(read_source(path))
    (document,) = compose(findings)
    for where, figure in figures(document.root.plain()):
        if str(figure["source"]).startswith("derived"):
            assert figure["confidence"] != "high", where


def facts(value: Any, path: str) -> Iterator[tuple[str, Cited | Number]]:
    if isinstance(value, Cited | Number):
        yield path, value
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from facts(child, f"{path}.{key}")
    elif isinstance(value, tuple):
        for number, child in enumerate(value):
            yield from facts(child, f"{path}.{number}")
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from facts(getattr(value, name), f"{path}.{name}")


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_fact_of_an_accelerator_says_where_it_is_from(name: str) -> None:
    found = dict(facts(CATALOG.accelerator(name).spec, name))
    assert len(found) > 30
    for where, fact in found.items():
        assert fact.source.strip(), where
        assert fact.source != BUILT_IN, where


def test_the_readme_counts_the_accelerators(repo_root: Path) -> None:
    readme = (repo_root / "README.md").read_text()
    assert f"Profiles of {len(ACCELERATORS)} accelerators" in readme


def test_all_accelerators_are_there() -> None:
    assert Catalog.load().names("AcceleratorProfile") == ACCELERATORS
    vendors = {Catalog.load().accelerator(name).spec.vendor for name in ACCELERATORS}
    assert vendors == {"nvidia", "amd", "google", "intel", "cpu", "rebellions", "ascend", "aws"}


def test_files_are_named_by_what_they_hold() -> None:
    for path in FILES:
        (document,) = compose(Findings(read_source(path)))
        name = document.root.text("metadata", "name") or ""
        stem = path.stem.replace("--", "/").removesuffix(".family")
        assert stem == name or stem.startswith(f"{name}-"), path.name


def test_units_are_turned_into_base_units() -> None:
    h100 = Catalog.load().accelerator("nvidia-h100").spec
    assert h100.memory_bytes.value == 80 * 2**30
    assert h100.memory_bandwidth.value == 3.35e12
    assert h100.flops["bf16"].value == 989e12
    assert h100.engines["vllm"].startup_seconds.value == 3600


def test_an_engine_is_found_with_and_without_its_version() -> None:
    catalog = Catalog.load()
    assert catalog.engine("vllm").spec.version == "0.32.0"
    assert catalog.engine("vllm", "0.32.0").spec.flags["--dtype"].choices
    with pytest.raises(UnknownProfile):
        catalog.engine("vllm", "0.1.0")


def test_every_role_of_an_engine_names_a_flag_of_its_table() -> None:
    for name in ("vllm", "llamacpp", "sim"):
        spec = Catalog.load().engine(name).spec
        for flag in (
            *spec.roles.values(),
            *spec.defaults,
            *spec.reserved,
            *spec.not_yet,
            *spec.uncounted,
            *spec.breaks,
            *spec.inert,
        ):
            assert flag in spec.flags, (name, flag)


def test_what_breaks_serving_is_a_choice_of_its_flag_and_has_one_verdict() -> None:
    spec = Catalog.load().engine("vllm").spec
    for flag, broken in spec.breaks.items():
        choices = spec.flags[flag].choices
        assert not choices or set(broken.values) <= set(choices), flag
    assert not set(spec.breaks) & set(spec.uncounted)
    assert set(spec.inert) <= {*spec.breaks, *spec.uncounted}


def test_a_table_beside_an_engine_is_no_engine() -> None:
    versions = {"vllm", *(f"vllm@{version}" for version in ("0.23.0", "0.32.0", "0.33.0"))}
    assert {name for name in CATALOG.names("EngineProfile") if "vllm" in name} == versions


def test_every_setting_of_an_accelerator_is_a_flag_of_the_engine() -> None:
    catalog = Catalog.load()
    known = {name for name in catalog.names("EngineProfile") if "@" not in name}
    for name in ACCELERATORS:
        for engine, on in catalog.accelerator(name).spec.engines.items():
            if engine in known:
                assert set(on.settings) <= set(catalog.engine(engine).spec.flags), (name, engine)
            else:
                assert on.not_yet, (name, engine)
                assert not on.settings, (name, engine)


def test_a_flag_has_one_name_in_engine_args() -> None:
    for name in ("vllm", "llamacpp", "sim"):
        engine = Catalog.load().engine(name)
        assert len(engine.by_argument) == len(engine.spec.flags)
    assert Catalog.load().engine("vllm").by_argument["all2allBackend"] == "--all2all-backend"
