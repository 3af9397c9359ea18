"""`render`: what it writes, what it leaves alone, and what it says without writing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llmd_ctl.apply.files import RealFiles
from llmd_ctl.cli.boundary import run
from llmd_ctl.cli.output_folder import LIST
from tests.e2e.cli.published import check
from tests.unit.cli.test_boundary import FLEET as ONE

FLEET = ONE.replace("nvidia-h100}", "nvidia-h100, replicas: 2}")
RENDER = ("render", "fleet.yaml", "--simulate", "--output-dir", "out")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with fleet.yaml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    return tmp_path


def rendered(folder: Path) -> dict[str, str]:
    """Every file of the output folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_files_are_written_once_and_then_up_to_date(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENDER]) == 0
    assert "wrote out/run.sh" in capsys.readouterr().out
    first = rendered(place / "out")
    assert first.keys() >= {"run.sh", "router.yaml", LIST}
    assert (place / "out" / "run.sh").stat().st_mode & 0o777 == 0o755
    times = {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")}
    assert run([*RENDER]) == 0
    assert "kept out/run.sh" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")} == times
    assert run([*RENDER, "--check"]) == 0
    assert capsys.readouterr().out == ""
    assert rendered(place / "out") == first


def test_check_shows_what_differs_and_writes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENDER, "--check"]) == 1
    assert not (place / "out").exists()
    run([*RENDER])
    script = place / "out" / "run.sh"
    script.write_text(script.read_text() + "echo mine\n")
    capsys.readouterr()
    before = rendered(place / "out")
    assert run([*RENDER, "--check"]) == 1
    out = capsys.readouterr().out
    assert "--- a/run.sh" in out
    assert "-echo mine" in out
    assert rendered(place / "out") == before
    assert run([*RENDER]) == 0
    assert "echo mine" not in script.read_text()
    script.chmod(0o644)
    assert run([*RENDER, "--check"]) == 1
    assert "run.sh: whether it can be executed" in capsys.readouterr().out


def test_a_file_that_is_no_longer_rendered_is_removed_and_others_stay(place: Path) -> None:
    run([*RENDER])
    (place / "out" / "notes.txt").write_text("mine")
    text = FLEET.replace("replicas: 2", "replicas: 1")
    assert text != FLEET
    (place / "fleet.yaml").write_text(text)
    assert run([*RENDER, "--check"]) == 1
    assert run([*RENDER]) == 0
    left = rendered(place / "out")
    assert "notes.txt" in left
    assert len([path for path in left if path.startswith("engines/")]) == 1


def test_a_file_of_somebody_elses_is_not_overwritten(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "out").mkdir()
    (place / "out" / "run.sh").write_text("mine")
    assert run([*RENDER]) == 64
    assert "error[LC6011]" in capsys.readouterr().err
    assert rendered(place / "out") == {"run.sh": "mine"}


def test_a_render_that_was_broken_off_can_be_run_again(place: Path) -> None:
    run([*RENDER])
    first = rendered(place / "out")
    (place / "out" / LIST).unlink()
    (place / "out" / "router.yaml").unlink()
    assert run([*RENDER]) == 0
    assert rendered(place / "out") == first


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}",
        '{"fleet": "small", "target": "here", "format": "script", "files": ["../../x"]}',
        '{"fleet": "small", "target": "here", "format": "script", "files": ["/x"]}',
        '{"fleet": "small", "target": "here", "format": "script", "files": "x"}',
        '{"fleet": "other", "target": "here", "format": "script", "files": []}',
    ],
)  # fmt: skip
def test_a_list_that_is_not_this_targets_stops_it(
    place: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "out").mkdir()
    (place / "out" / LIST).write_text(text)
    assert run([*RENDER]) == 64
    assert "error[LC6011]" in capsys.readouterr().err
    assert rendered(place / "out") == {LIST: text}


def test_the_document_keeps_to_its_schema(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RENDER, "--output", "json", "--check"]) == 1
    document = json.loads(capsys.readouterr().out)
    check(document, "llmd-ctl/render/v1")
    assert all(file["changed"] for file in document["files"])
    run([*RENDER])
    capsys.readouterr()
    assert run([*RENDER, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document, "llmd-ctl/render/v1")
    assert not any(file["changed"] for file in document["files"])
    assert document["differs"] is False


def test_the_plan_file_renders_the_same(place: Path) -> None:
    run([*RENDER])
    run(["plan", "fleet.yaml", "--simulate", "-o", "plan.json"])
    assert run(["render", "plan.json", "--output-dir", "out", "--check"]) == 0


def test_a_target_and_a_format_that_are_none_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENDER, "--target", "hre"]) == 64
    assert "did you mean: here" in capsys.readouterr().err
    assert run([*RENDER, "--format", "helm"]) == 64
    assert "is not rendered as helm" in capsys.readouterr().err
    text = FLEET.replace("kind: local}", "kind: local}, {name: other, kind: local}")
    text = text.replace("accelerator:", "target: here, accelerator:")
    (place / "fleet.yaml").write_text(text)
    assert run([*RENDER]) == 64
    assert "the fleet has several targets" in capsys.readouterr().err
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("small", "sm\x85all", 1),
    ],
)
def test_check_shows_ends_of_lines_that_differ(
    place: Path, spoil: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*RENDER])
    script = place / "out" / "run.sh"
    script.write_bytes(spoil(script.read_text()).encode())
    capsys.readouterr()
    assert run([*RENDER, "--check"]) == 1
    told = capsys.readouterr().out
    assert told.startswith("--- a/run.sh\n+++ b/run.sh\n@@ ")
    assert "executed" not in told


def test_of_two_at_once_the_second_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "out").mkdir()
    held = os.open(place / "out", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert run([*RENDER]) == 64
    assert "another llmd-ctl writes into out" in capsys.readouterr().err
    assert rendered(place / "out") == {}
    os.close(held)
    assert run([*RENDER]) == 0


def test_interrupted_it_says_what_was_not_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Path] = []
    write = RealFiles.write_atomic

    def interrupt(self: RealFiles, path: Path, content: bytes, mode: int = 0o644) -> None:
        write(self, path, content, mode)
        written.append(path)
        if len(written) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(RealFiles, "write_atomic", interrupt)
    assert run([*RENDER]) == 130
    told = capsys.readouterr().err
    assert "error[LC4008]: interrupted while out was written" in told
    assert "before anything was changed" not in told
    monkeypatch.undo()
    assert run([*RENDER[:1], str(place / "fleet.yaml"), *RENDER[2:-1], str(place / "out")]) == 0


def test_a_full_disk_says_to_make_room(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RealFiles, "write_atomic", full)
    assert run([*RENDER]) == 64
    told = capsys.readouterr().err
    assert "cannot write out: No space left on device" in told
    assert "Make room there" in told


def test_an_empty_folder_is_not_the_one_we_are_in(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENDER[:-1], ""]) == 64
    assert "--output-dir is empty" in capsys.readouterr().err
    assert sorted(path.name for path in place.iterdir()) == ["fleet.yaml"]


def test_what_is_no_folder_is_told_as_such(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "gone").symlink_to("nowhere")
    for path in ("gone", "fleet.yaml"):
        assert run([*RENDER[:-1], path]) == 64
        told = capsys.readouterr().err
        assert f"cannot write into {path}: it is no folder" in told
        assert "permissions" not in told


@pytest.mark.parametrize("folder", ["/proc/nosuch", "fleet.yaml", "fleet.yaml/out"])
def test_a_folder_that_cannot_be_written_is_told(
    place: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RENDER[:-1], folder]) == 64
    told = capsys.readouterr()
    assert "error[LC6003]: cannot write" in told.err
    assert told.out == ""
    assert (place / "fleet.yaml").read_text() == FLEET
