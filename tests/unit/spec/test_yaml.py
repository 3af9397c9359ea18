"""YAML itself: syntax, repeated keys, anchors, merges, tags, documents, and their bounds."""

from __future__ import annotations

import time

import pytest

from tests.unit.spec.told import Complain, Load, caret

# what stands in the valid fleet, what is put there, what the message says, line and column
SYNTAX = [
    ("  targets:\n", "\ttargets:\n", "a tab cannot indent YAML", (6, 1)),
    ('4318", protocol', "4318, protocol", "the quote that starts here is not closed", (43, 34)),
    ("[assistant]", "[assistant", "the list that starts here is not closed", (16, 14)),
    ("metadata: {name: prod}", "metadata: {name: prod", "the map that starts here", (4, 11)),
    ("revision: main", "revision: main: x", "a key cannot stand here", (15, 19)),
    ("revision: main", "revision: @main", "a value cannot start with '@'", (15, 15)),
    ("revision: main", "revision: 'a' b", "a key was expected here", (15, 19)),
    ("revision: main", 'revision: "\\q"', "this escape is not known", (15, 16)),
    ("revision: main", "revision: - x", "a list cannot start here", (15, 15)),
    ("    revision: main", "   revision: main", "a key was expected here", (15, 4)),
    ("maxModelLen: 32768", "maxModelLen:32768", "no space after the colon of maxModelLen", (17, 5)),
    ("maxModelLen: 32768", "maxModelLen 32768", "there is no colon after maxModelLen", (17, 5)),
    ("kind: Fleet", "kind Fleet", "there is no colon after kind", (3, 1)),
    ("spec:\n", "spec\n", "there is no colon after spec", (5, 1)),
    ("- {name: here, k", "-{name: here, k", "there is no space after the dash", (7, 3)),
    ("- name: chat", "- name:chat", "there is no space after the colon of name", (13, 5)),
    ("  profiles: [", "  profiles:\n    - x\n    y: [", "a list item was expected", (35, 5)),
]


@pytest.mark.parametrize(("before", "after", "message", "place"), SYNTAX)
def test_a_syntax_error_is_placed_and_explained(
    valid: str, complain: Complain, before: str, after: str, message: str, place: tuple[int, int]
) -> None:
    (problem,) = complain(valid.replace(before, after, 1))
    assert problem.code == "LC1010"
    assert message in problem.message
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == place


def test_what_is_missing_at_the_end_is_placed_at_the_end(complain: Complain) -> None:
    (problem,) = complain("a: b\nc: [")
    assert problem.message == "YAML: a value was expected here"
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (2, 5)


def test_a_repeated_key_is_placed_and_the_rest_is_still_checked(
    valid: str, complain: Complain
) -> None:
    twice = valid.replace("      replicas: 4", "      replicas: 4\n      replicas: 5\n      x: 1")
    repeated, unknown = complain(twice)
    assert (repeated.code, caret(repeated)) == ("LC1011", "replicas")
    assert repeated.place is not None
    assert repeated.place.line == 24
    assert "line 23" in repeated.message
    assert (unknown.code, caret(unknown)) == ("LC1020", "x")


def test_anchors_and_merge_keys_are_carried_out(valid: str, load: Load) -> None:
    plain = load(valid.replace("{name: sim}", "{name: vllm, executable: vllm}"))
    anchored = valid.replace("engine: {name: vllm, exe", "engine: &e {name: vllm, exe")
    assert load(anchored.replace("{name: sim}", "*e"))[0].spec_hash == plain[0].spec_hash
    assert load(anchored.replace("{name: sim}", "{<<: *e}"))[0].spec_hash == plain[0].spec_hash
    both = anchored.replace("{name: sim}", "{<<: [*e, {name: sim, version: v}], executable: x}")
    engine = load(both)[0].fleet.spec.models[0].variants[1].engine
    assert engine is not None
    assert (engine.name, engine.version, engine.executable) == ("vllm", "v", "x")


def test_a_fault_inside_an_anchor_is_told_once_where_it_is_written(
    valid: str, complain: Complain
) -> None:
    anchored = valid.replace("engine: {name: vllm, executable: vllm}", "engine: &e {name: vlm}")
    (problem,) = complain(anchored.replace("{name: sim}", "*e"))
    assert (problem.code, caret(problem)) == ("LC1024", "vlm")


@pytest.mark.parametrize(
    ("before", "after", "code", "under"),
    [
        ("revision: main", "revision: *nowhere", "LC1012", "*nowhere"),
        ("aliases: [assistant]", "aliases: &a [*a]", "LC1012", "*a"),
        ("revision: main", "revision: !!python/name:os.system x", "LC1014", None),
        ("aliases: [assistant]", "aliases: !Ref [assistant]", "LC1014", None),
        ("metadata: {name: prod}", "metadata: !!seq {name: prod}", "LC1014", None),
        ("revision: main", "revision: main\n    1: x", "LC1015", "1"),
        ("revision: main", "revision: main\n    true: x", "LC1015", "true"),
        ("revision: main", "revision: main\n    ? [a]\n    : x", "LC1015", "[a]"),
        ("metadata: {name: prod}", "metadata: {name: prod, ~: x}", "LC1015", "~"),
        ("revision: main", "revision: main\n    <<: [1]", "LC1016", "1"),
        ("revision: main", 'revision: "a\\0b"', "LC1017", '"a\\0b"'),
        ("revision: main", 'revision: "a\\eb"', "LC1017", '"a\\eb"'),
    ],
)
def test_odd_yaml_is_refused_at_its_place(
    valid: str, complain: Complain, before: str, after: str, code: str, under: str | None
) -> None:
    (problem,) = complain(valid.replace(before, after, 1))
    assert problem.code == code
    assert under is None or caret(problem) == under


def test_text_may_be_tagged_as_text(valid: str, load: Load) -> None:
    (loaded,) = load(valid.replace("revision: main", "revision: !!str 0123"))
    assert loaded.fleet.spec.models[0].revision == "0123"


def test_words_are_text_that_only_look_like_something_else(valid: str, load: Load) -> None:
    for word in ("2026-11-30", "nope", "null-model", "0.32.0", "1e", "3x", "truest"):
        (loaded,) = load(valid.replace("revision: main", f"revision: {word}"))
        assert loaded.fleet.spec.models[0].revision == word


def test_several_documents_are_several_fleets(valid: str, load: Load) -> None:
    other = valid.replace("name: prod", "name: other")
    loaded = load(f"---\n{valid}\n---\n# nothing\n---\n{other}---\n")
    assert [one.fleet.metadata.name for one in loaded] == ["prod", "other"]
    lines = [one.place(("metadata", "name")).line for one in loaded]
    assert lines[1] - lines[0] == len(valid.splitlines()) + 4


def test_problems_of_every_document_are_told(valid: str, complain: Complain) -> None:
    spoilt = valid.replace("replicas: 4", "replicas: -4")
    problems = complain(f"{spoilt}\n---\n{spoilt}")
    assert [p.code for p in problems] == ["LC1025", "LC1025"]


def test_an_anchor_ends_with_its_document(valid: str, complain: Complain) -> None:
    other = valid.replace("name: prod", "name: other").replace("{name: sim}", "*e")
    first = valid.replace("engine: {name: sim}", "engine: &e {name: sim}")
    (problem,) = complain(f"{first}---\n{other}")
    assert (problem.code, caret(problem)) == ("LC1012", "*e")


def test_a_syntax_error_does_not_hide_the_documents_before_it(
    valid: str, complain: Complain
) -> None:
    spoilt = valid.replace("replicas: 4", "replicas: -4")
    problems = complain(f"{spoilt}\n---\na: [")
    assert [p.code for p in problems] == ["LC1025", "LC1010"]


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "---\n", "~", "--- null\n...\n"])
def test_a_file_without_a_fleet_is_refused(complain: Complain, text: str) -> None:
    (problem,) = complain(text)
    assert problem.code == "LC1004"


@pytest.mark.parametrize("text", ["fleet", "- 1", "12", "[]", '""'])
def test_a_document_that_is_no_map_is_refused(complain: Complain, text: str) -> None:
    (problem,) = complain(text)
    assert problem.code == "LC1023"
    assert problem.message == "a fleet must be a map"


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


def _chain() -> str:
    return "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 5000))])


@pytest.mark.parametrize(
    "text",
    [
        _bomb(),
        _chain(),
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000 + "x",
        "? " * 100_000,
        "".join(" " * n + "a:\n" for n in range(500)),
        pytest.param("- a\n" * 300_000, marks=pytest.mark.slow),
        "a: *x\n" * 5000,
        "x: 'y\n" * 50_000,
        "&a " * 10_000,
        "%TAG " * 10_000,
        "a" * 1_000_000,
        f"a: 1\nb{' ' * 500_000}:x\nc: 1",
        f"a: 1\n-{' ' * 500_000}!\nb: 1: 2",
        pytest.param("{" + "a: b, " * 50_000 + "}", marks=pytest.mark.slow),
        pytest.param("".join(f"k{n}: v\n" for n in range(20_000)), marks=pytest.mark.slow),
    ],
    ids=lambda text: str(text[:12]),
)
def test_a_hostile_document_is_refused_soon(complain: Complain, text: str) -> None:
    start = time.process_time()
    assert complain(text)
    assert time.process_time() - start < 20  # a liveness bound, not a speed


def test_a_flood_of_problems_is_cut_and_said_to_be(valid: str, complain: Complain) -> None:
    flood = "".join(f"x{n}: 1\n" for n in range(700))
    problems = complain(f"{valid}\n{flood}")
    assert len(problems) == 501
    assert problems[-1].code == "LC1019"
    assert problems[-1].message == "200 more problems are in this file"
