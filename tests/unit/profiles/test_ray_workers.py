"""The script by which a host of a TPU slice joins the first one, run with a Ray that is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from llmd_ctl.profiles import Catalog

RAY = """#!/bin/sh
echo "$@" >>"$LOG"
case "$1" in status) [ "$(grep -c status "$LOG")" -gt 2 ] ;; esac
"""


def test_a_worker_waits_for_a_leader_that_is_not_there_yet(tmp_path: Path) -> None:
    several = Catalog.load().accelerator("google-tpu-v6e").spec.engines["vllm"].several
    assert several is not None
    for name, text in (("ray", RAY), ("sleep", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    argv = [word.replace("{leader}", "leader") for word in several.follow]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(argv, check=True, env={"PATH": path, "LOG": str(log)}, timeout=30)
    asked = ["status --address=leader:6379"] * 3
    assert log.read_text().splitlines() == [*asked, "start --address=leader:6379 --block"]
