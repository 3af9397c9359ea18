"""Every code renders, every place shows its line, and what is shown is safe for a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import resources

import pytest

from llmd_ctl import errors
from llmd_ctl.errors import (
    CodeDoc,
    LlmdError,
    Place,
    Problem,
    SpecInvalid,
    codes,
    render_problem,
)

LINE = "    replica: 4  # as many as there are"
PLACE = Place("fleet.yaml", 12, 5, "spec.models[0].variants[0].replica", LINE, 7)


@pytest.mark.parametrize(("code", "doc"), codes().items(), ids=codes())
def test_every_code_renders_with_its_example_and_hint(code: str, doc: CodeDoc) -> None:
    assert doc.meaning.endswith(".")
    assert doc.example
    assert doc.hint.endswith((".", "]."))
    shown = render_problem(Problem(code, doc.example, PLACE))
    assert shown.startswith(f"error[{code}]: {doc.example}\n  --> fleet.yaml:12:5\n")
    assert shown.endswith(f"  hint: {doc.hint}")
    assert json.loads(json.dumps(Problem(code, doc.example, PLACE).to_json()))["code"] == code


def test_the_table_is_sorted_and_holds_no_code_twice() -> None:
    text = resources.files("llmd_ctl").joinpath("codes.yaml").read_text("utf-8")
    written = re.findall(r"^(LC\d{4}):", text, re.MULTILINE)
    assert written == sorted(set(written))
    assert written == list(codes())
    assert all(re.fullmatch(r"LC[1-6]0\d\d", code) for code in written)


def test_a_problem_is_rendered_whole() -> None:
    problem = Problem(
        "LC1020",
        'unknown key "replica" in a variant',
        PLACE,
        found="replica",
        allowed=("name", "replicas"),
    )
    assert render_problem(problem) == (
        'error[LC1020]: unknown key "replica" in a variant\n'
        "  --> fleet.yaml:12:5\n"
        "    |\n"
        " 12 |     replica: 4  # as many as there are\n"
        "    |     ^^^^^^^\n"
        "  found: replica\n"
        "  allowed: name, replicas\n"
        "  did you mean: replicas\n"
        f"  hint: {codes()['LC1020'].hint}"
    )


COMMAND = "`llmd-ctl apply /a/path/that/is/long/fleet.yaml --simulate`"
PROSE = Problem(
    "LC1020",
    f"many words {'and more ' * 12}then {COMMAND} and the end",
    Place("fleet.yaml", 12, 5, "", "  key: " + "x" * 80, 3),
    found="one thing that was found, with words; another thing; a third thing that was found",
    allowed=tuple(f"an allowed word {n}" for n in range(9)),
    hint=f"Do {'this and that, ' * 9}and {{value: 3.35, unit: TB/s, source: …}} at the end.",
)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_words_are_wrapped_and_what_is_copied_stays_whole(width: int) -> None:
    plain = render_problem(PROSE)
    shown = render_problem(PROSE, width=width)
    assert " ".join(shown.split()) == " ".join(plain.split())
    for whole in (COMMAND, "{value: 3.35, unit: TB/s, source: …}", "  key: " + "x" * 80):
        assert any(whole in line for line in shown.splitlines())
    long = [line for line in shown.splitlines() if len(line) > width]
    assert all(line.strip().startswith(("`", "12 |", "one", "found", "{")) for line in long)
    hint = shown.partition("  hint: ")[2].splitlines()
    assert len(hint) > 1
    assert all(line.startswith(" " * 8) for line in hint[1:])


def test_what_fits_is_written_as_it_is() -> None:
    problem = Problem("LC1020", "two  spaces", hint="")
    assert render_problem(problem, width=80) == "error[LC1020]: two  spaces"
    wide = Problem("LC1020", "字" * 20 + " " + "字" * 20, hint="")
    assert len(render_problem(wide, width=80).splitlines()) == 2


def test_a_warning_is_called_one_and_an_own_hint_wins() -> None:
    shown = render_problem(Problem("LC1020", "x", hint="Do this.", severity="warning"))
    assert shown == "warning[LC1020]: x\n  hint: Do this."
    assert "hint" not in render_problem(Problem("LC1020", "x", hint=""))


def test_the_line_comes_from_the_source_when_the_place_has_none() -> None:
    problem = Problem("LC1020", "x", Place("f", 2, 3), hint="")
    assert render_problem(problem, "a\nb: c\n").splitlines()[3:] == [" 2 | b: c", "   |   ^"]
    assert render_problem(problem, "a\n").splitlines() == ["error[LC1020]: x", "  --> f:2:3"]
    assert render_problem(problem).splitlines() == ["error[LC1020]: x", "  --> f:2:3"]


@pytest.mark.parametrize(
    ("text", "column", "length", "line", "caret"),
    [
        ("\ta: b", 2, 1, "  a: b", "  ^"),
        ("字: b", 4, 1, " 字: b", "     ^"),
        ("a: b", 5, 1, " a: b", "     ^"),
        ("a: b", 1, 99, " a: b", " ^^^^"),
        ("a\x1b[2J: b", 1, 1, " a [2J: b", " ^"),
    ],
)
def test_the_caret_stands_under_its_text(
    text: str, column: int, length: int, line: str, caret: str
) -> None:
    place = Place("f", 1, column, "", text, length)
    shown = render_problem(Problem("LC1020", "x", place, hint="")).splitlines()
    assert shown[3:] == [f" 1 |{line}", f"   |{caret}"]


@pytest.mark.parametrize("column", [1, 80, 120, 4000, 99_999, 100_000])
def test_a_long_line_is_cut_to_what_is_meant(column: int) -> None:
    text = "x" * (column - 1) + "Y" + "x" * (100_000 - column)
    shown = render_problem(Problem("LC1020", "x", Place("f", 1, column, "", text), hint=""))
    line, caret = shown.splitlines()[3:]
    assert len(line) < 110
    assert line[caret.index("^")] == "Y"
    assert ("…" in line[:6]) == (column > 90)
    assert line.endswith("…") == (column < 99_900)


def test_nothing_shown_can_disturb_a_terminal() -> None:
    nasty = "a\x1b[31m\nb\u202e\x07"
    problem = Problem("LC1020", nasty, Place(nasty, 1, 1), nasty, (nasty,), nasty)
    shown = render_problem(problem)
    assert len(shown.splitlines()) == 5
    assert all(line.isprintable() for line in shown.splitlines())


def test_a_long_value_and_a_long_list_are_cut() -> None:
    problem = Problem("LC1020", "x", None, "y" * 10_000, tuple(f"word{n}" for n in range(40)))
    shown = render_problem(problem)
    assert len(shown) < 2_000
    assert "word15 and 24 more" in shown


@pytest.mark.parametrize(
    ("word", "known", "closest"),
    [
        ("replica", ["name", "replicas"], "replicas"),
        ("max_model_len", ["maxModelLen"], "maxModelLen"),
        ("ROUND-ROBIN", ["round-robin", "random"], "round-robin"),
        ("replicas", ["replicas"], None),
        ("zzz", ["name", "replicas"], None),
        ("x" * 100_000, ["name"], None),
        ("a", [], None),
        ("16", ["1", "2", "4", "8"], None),
        ("1.5", ["1", "15"], None),
        ("0.31.0", ["0.32.0"], "0.32.0"),
        ("cat", ["chart"], "chart"),
        ("tpu", ["top-up-x"], None),
        ("least", ["latency"], None),
        ("h100", ["amd-mi300x", "nvidia-h100-pcie", "nvidia-h100"], "nvidia-h100"),
        ("L4", ["nvidia-l40s", "nvidia-l4"], "nvidia-l4"),
        ("tpu-v6e", ["google-tpu-v5e", "google-tpu-v6e"], "google-tpu-v6e"),
        ("x", ["amd-mi300x"], None),
    ],
)
def test_the_nearest_word_is_offered(word: str, known: list[str], closest: str | None) -> None:
    assert errors.closest(word, known) == closest


def test_a_problem_survives_json() -> None:
    problem = Problem("LC1020", "x", PLACE, "replica", ("replicas",), "Do this.", "warning")
    document = json.loads(json.dumps(problem.to_json()))
    assert document["didYouMean"] == "replicas"
    assert Problem.from_json(document) == problem
    placeless = Problem("LC1001", "x", hint="Do this.")
    assert Problem.from_json(placeless.to_json()) == placeless


def test_each_error_has_the_exit_code_of_the_table_in_its_module() -> None:
    drawn = dict(re.findall(r"(\w+) +(\d+) +\w", errors.__doc__ or ""))
    classes: list[type[LlmdError]] = [LlmdError, *LlmdError.__subclasses__()]
    tree = {cls.__name__: str(cls.exit_code) for cls in classes}
    assert tree == drawn
    assert tree == {
        "LlmdError": "1",
        "UsageError": "64",
        "SpecInvalid": "65",
        "DoesNotFit": "66",
        "TargetUnreachable": "69",
        "RolledBack": "70",
        "ApplyFailed": "71",
        "Locked": "75",
        "Interrupted": "130",
    }


def test_an_error_carries_its_problems() -> None:
    error = SpecInvalid.of("LC1020", "unknown key", place=PLACE, found="a", allowed=["b"])
    assert error.problems == (Problem("LC1020", "unknown key", PLACE, "a", ("b",)),)
    assert str(error) == "LC1020: unknown key"
    assert error.exit_code == 65


def test_codes_are_read_when_an_error_is_told() -> None:
    program = "import sys, llmd_ctl.errors as e; print(e.codes.cache_info().currsize, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    read, *modules = done.stdout.split()
    assert read == "0"
    assert "yaml" not in modules
