"""Units for real: systemd's own parser takes them whole, and reads the words that the plan says.

`systemd-analyze verify` is systemd's loader without a manager. With its log level at debug it
prints what it has read: the command line quoted as for a shell. Of what a manager does later, $$ to
$ when a process starts is left, and done here by the rule of systemd.service(5).
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import HOST, PORT
from llmd_ctl.plan.place import HostDevices, PlannedTarget
from llmd_ctl.render.systemd import render
from tests.unit.controller.plans import real_variant, variant
from tests.unit.render.hostile import ENV, WORDS
from tests.unit.render.places import BASE, changed, whole

ROOT = Path(__file__).resolve().parents[3]
HERE = PlannedTarget("here", "systemd")
ESCAPE = re.compile(r"\\(?:([0-7]{3})|x([0-9a-f]{2})|(.))", re.DOTALL)
SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# Settings of systemd 254, which older ones leave out with these words.
NEWER = re.compile(r"Unknown key (name )?'(RestartSteps|RestartMaxDelaySec)' in section")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs that units start, which do nothing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("engine", "llmd-router", "llmd-engine"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def verify(units: Path, *, debug: bool = False) -> subprocess.CompletedProcess[str]:
    """Have systemd read every unit of a folder."""
    found = subprocess.run([ROOT / "ci" / "units"], capture_output=True, text=True, check=True)
    program = found.stdout.strip()
    env = {**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:", "SYSTEMD_LOG_LEVEL": "debug"}
    if not debug:
        del env["SYSTEMD_LOG_LEVEL"]
    files = sorted(units.iterdir())
    argv = [program, "verify", "--man=no", *map(str, files)]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def written(folder: Path, text: dict[str, str], programs: Path) -> Path:
    """The units of one host on disk; programs by their paths, as they are not installed."""
    units = folder / "units"
    units.mkdir()
    for path, content in text.items():
        if "/systemd/system/" in path:
            found = re.sub(
                r"^ExecStart=(llmd-\w+)", rf"ExecStart={programs}/\1", content, flags=re.MULTILINE
            )
            (units / Path(path).name).write_text(found)
    return units


def words_of(line: str) -> list[str]:
    """A command line as systemd prints it, taken apart."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^ ]+)', line, re.DOTALL)
    return [_unescaped(quoted) if quoted or not plain else plain for quoted, plain in found]


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        octal, hexa, letter = match.groups()
        return (
            chr(int(octal, 8))
            if octal
            else chr(int(hexa, 16))
            if hexa
            else SHORT.get(letter, letter)
        )

    return ESCAPE.sub(one, text)


def test_systemd_reads_back_every_word_and_variable(tmp_path: Path, programs: Path) -> None:
    command = (str(programs / "engine"), *WORDS, HOST, PORT)
    made = replace(real_variant("a"), command=command, env=ENV, place=BASE)
    files = {file.path: file.text for file in render(whole(HERE, made), HERE)}
    done = verify(written(tmp_path, files, programs), debug=True)
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.split("\n")]  # not at U+2028
    (line,) = (line for line in lines if line.startswith(f"Command Line: {programs}/engine"))
    argv = [word.replace("$$", "$") for word in words_of(line.removeprefix("Command Line: "))]
    assert argv == [*command[:-2], "127.0.0.1", "18000"]
    for name, value in ENV.items():
        assert f"\tEnvironment: {name}={value}\n" in done.stdout


@pytest.mark.parametrize("kind", ["plain", *(name for name, _ in changed())])
def test_systemd_takes_every_unit_without_a_word(kind: str, tmp_path: Path, programs: Path) -> None:
    place = dict(changed()).get(kind, BASE)
    shared = HostDevices(8, "CUDA_VISIBLE_DEVICES", classes=("nvidia", "nvidia-uvm"))
    command = (str(programs / "engine"), HOST, PORT)
    engine = replace(
        real_variant("a", replicas=2), command=command, place=place, host_devices=shared
    )
    files = {file.path: file.text for file in render(whole(HERE, engine, variant("s")), HERE)}
    units = written(tmp_path, files, programs)
    assert len(list(units.iterdir())) == 5
    done = verify(units)
    ours = [line for line in done.stderr.splitlines() if "llmd-" in line]
    said = [line for line in ours if not NEWER.search(line)]
    assert (done.returncode, said) == (0, [])


def test_what_systemd_does_not_know_is_seen(tmp_path: Path, programs: Path) -> None:
    engine = replace(real_variant("a"), command=(str(programs / "engine"),))
    files = {file.path: file.text for file in render(whole(HERE, engine), HERE)}
    wrong = {path: text.replace("KillMode=", "KilMode=") for path, text in files.items()}
    assert "KilMode" in verify(written(tmp_path, wrong, programs)).stderr


def test_the_routers_key_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    files = {file.path: file.text for file in render(whole(HERE), HERE)}
    unit = files["units/etc/systemd/system/llmd-prod-router.service"]
    (line,) = re.findall(r"^ExecStartPre=(.*)$", unit, re.MULTILINE)
    program, option, script = words_of(line)
    key = tmp_path / "admin.key"
    script = script.replace("/var/lib/llmd-ctl/prod/admin.key", str(key))
    subprocess.run([program, option, script], check=True)
    first = key.read_text()
    assert re.fullmatch(r"[0-9a-f]{64}", first)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    subprocess.run([program, option, script], check=True)
    assert key.read_text() == first
