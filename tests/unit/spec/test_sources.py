"""Files and standard input: what cannot be read is said, and what can be is read as it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.spec import load_fleets
from llmd_ctl.spec.source import UNPRINTABLE


@pytest.fixture
def valid(valid: str) -> str:
    """The valid fleet without the profile file that it lists, which is in no folder here."""
    return valid.replace("[./mine.yaml]", "[]")


def _complaints(*sources: str | Path) -> list[Problem]:
    with pytest.raises(SpecInvalid) as refused:
        load_fleets(sources)
    assert refused.value.exit_code == 65
    return list(refused.value.problems)


def _stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_missing_file_a_folder_and_an_odd_name_are_told_apart(tmp_path: Path) -> None:
    missing, folder, odd, below = _complaints(
        tmp_path / "no.yaml", tmp_path, "a\0b", Path(__file__) / "x"
    )
    assert {p.code for p in (missing, folder, odd, below)} == {"LC1001"}
    assert "no such file" in missing.message
    assert "it is a folder" in folder.message
    assert "null byte" in odd.message
    assert "Not a directory" in below.message


def test_a_file_that_may_not_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    (problem,) = _complaints(tmp_path / "fleet.yaml")
    assert (problem.code, "Permission denied" in problem.message) == ("LC1001", True)


def test_standard_input_is_a_source(valid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, valid.encode())
    (loaded,) = load_fleets(["-"])
    assert loaded.place(("metadata", "name")).file == "<stdin>"
    assert loaded.resolve("./tiny") == Path.cwd() / "tiny"


def test_faults_in_standard_input_are_placed(valid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, valid.replace("replicas: 4", "replicas: -4").encode())
    (problem,) = _complaints("-")
    assert str(problem.place) == "<stdin>:23:17"


def test_closed_standard_input_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    (problem,) = _complaints("-")
    assert (problem.code, problem.message) == ("LC1001", "cannot read standard input: it is closed")


@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b"a: b\nc: caf\xe9\n", "2:7", "byte 0xe9"),
        (b"a: b\n\xc3", "2:1", "byte 0xc3"),
        (b"a: b\nc: \x00\n", "2:4", "U+0000"),
        (b"a: \x1b[31m\n", "1:4", "U+001B"),
        ("a:\n- \u2028x".encode(), "2:3", "U+2028"),
        ("a: b\n".encode("utf-16"), "1:1", None),
        (b"\x89PNG\r\n\x1a\n", "1:1", "byte 0x89"),
    ],
)
def test_what_is_not_text_is_refused_at_the_first_bad_spot(
    tmp_path: Path, content: bytes, place: str, found: str | None
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_bytes(content)
    (problem,) = _complaints(file)
    assert problem.code == "LC1002"
    assert str(problem.place) == f"{file}:{place}"
    assert problem.found == found


def test_a_byte_order_mark_and_dos_line_ends_are_read(tmp_path: Path, valid: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + valid.replace("\n", "\r\n").encode())
    (dos,) = load_fleets([file])
    file.write_bytes(valid.encode())
    (unix,) = load_fleets([file])
    assert dos.spec_hash == unix.spec_hash
    path = ("spec", "models", 0, "variants", 0, "replicas")
    assert dos.place(path) == unix.place(path)


def test_columns_count_characters(tmp_path: Path, valid: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(valid.replace("{name: prod}", "{é字: 1, name: prod}"), "utf-8")
    (problem,) = _complaints(file)
    assert str(problem.place) == f"{file}:4:12"
    assert problem.found == "é字"


@pytest.mark.parametrize("size", [4 * 1024 * 1024 + 1, 10_000_000])
def test_a_huge_file_is_refused_unread(tmp_path: Path, size: int) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_bytes(b"#" * size)
    (problem,) = _complaints(file)
    assert problem.code == "LC1003"


def test_problems_of_every_file_are_told_together(tmp_path: Path, valid: str) -> None:
    names = ["a.yaml", "b.yaml", "c.yaml"]
    texts = [
        valid.replace("replicas: 4", "replicas: -4"),
        "[",
        valid.replace("Fleet", "Float"),
    ]
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    problems = _complaints(tmp_path / "missing.yaml", *(tmp_path / name for name in names))
    assert [p.code for p in problems] == ["LC1001", "LC1025", "LC1010", "LC1024"]


def test_several_files_are_several_fleets_with_names_of_their_own(
    tmp_path: Path, valid: str
) -> None:
    (tmp_path / "a.yaml").write_text(valid)
    (tmp_path / "b.yaml").write_text(valid.replace("name: prod", "name: other"))
    loaded = load_fleets([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    assert [one.fleet.metadata.name for one in loaded] == ["prod", "other"]
    (tmp_path / "b.yaml").write_text(valid)
    (problem,) = _complaints(tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert problem.code == "LC1060"
    assert str(problem.place) == f"{tmp_path / 'b.yaml'}:4:18"
    (twice,) = _complaints(tmp_path / "a.yaml", str(tmp_path / "a.yaml"))
    assert twice.code == "LC1005"


def test_paths_in_a_fleet_start_at_its_file(tmp_path: Path, valid: str) -> None:
    (tmp_path / "a.yaml").write_text(valid)
    (loaded,) = load_fleets([tmp_path / "a.yaml"])
    assert loaded.resolve("./tiny") == tmp_path / "tiny"
    assert loaded.resolve("/models/x") == Path("/models/x")
    assert loaded.resolve("file:///models/x") == Path("/models/x")


@pytest.mark.parametrize(
    ("listed", "reason"),
    [("./no.yaml", "no such file"), (".", "it is a folder"), ("./fleet.yaml/x", "Not a directory")],
)
def test_a_listed_profile_file_that_cannot_be_read_is_told_at_its_item(
    tmp_path: Path, valid: str, listed: str, reason: str
) -> None:
    (tmp_path / "good.yaml").touch()
    text = valid.replace("profiles: []", f"profiles: [./good.yaml, {listed}]")
    (tmp_path / "fleet.yaml").write_text(text.replace("replicas: 4", "replicas: -4"))
    other, problem = _complaints(tmp_path / "fleet.yaml")
    assert other.code == "LC1025"
    assert (problem.code, problem.found) == ("LC1001", listed)
    assert reason in problem.message
    assert problem.place is not None
    assert problem.place.path == "spec.profiles[1]"
    assert problem.place.text[problem.place.column - 1 :].startswith(listed)


def test_a_listed_profile_file_that_may_not_be_read_is_told_at_its_item(
    tmp_path: Path, valid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "fleet.yaml").write_text(valid.replace("profiles: []", "profiles: [./mine.yaml]"))
    monkeypatch.setattr("os.access", lambda *_: False)
    (problem,) = _complaints(tmp_path / "fleet.yaml")
    assert "permission denied" in problem.message
    assert problem.place is not None


def test_text_is_what_yaml_calls_printable_and_next_to_no_more() -> None:
    text = [range(0x20, 0x7F), range(0xA0, 0x2028), range(0x202A, 0xD800), range(0xE000, 0xFEFF)]
    text += [range(0xFF00, 0xFFFE), range(0x10000, 0x110000)]
    allowed = {chr(code) for part in text for code in part} | {*"\t\n\r"}
    every = {chr(code) for code in range(0x110000)}
    assert {one for one in every if not UNPRINTABLE.search(one)} == allowed
