"""The router itself checks every router.yaml that is rendered for hosts, compose and a script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.addresses import router_yaml
from llmd_ctl.render.router import Listen
from tests.unit.controller.plans import model, plan, variant
from tests.unit.render.hostile import WORDS

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "render"
RENDERED = sorted(GOLDEN.glob("*/out/**/router.yaml"))


def checked(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Have the router read a configuration, with a key where it may read one."""
    (folder / "admin.key").write_text("key\n")
    config = folder / "router.yaml"
    config.write_text(re.sub(r"(?m)^adminKeyFile: .*$", "adminKeyFile: admin.key", text))
    argv = [sys.executable, "-P", "-m", "llmd_ctl.router", "--config", str(config), "--check"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_the_router_takes_what_is_rendered(path: Path, tmp_path: Path) -> None:
    done = checked(path.read_text(), tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_router_takes_names_of_every_look(tmp_path: Path) -> None:
    names = tuple(dict.fromkeys(word for word in WORDS if word and word.isprintable()))
    whole = plan(model("chat", variant("a", facts=None), aliases=names))
    here = PlannedTarget("here", "local")
    text = router_yaml(whole, here, Listen("127.0.0.1:8000", "127.0.0.1:9090"), "admin.key")
    done = checked(text, tmp_path)
    assert done.returncode == 0, done.stderr
