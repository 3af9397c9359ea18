"""What guides need beside llmd-ctl itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.render.conftest import made_by_cluster


@pytest.fixture(scope="session")
def kubectl(repo_root: Path) -> Path:
    """The real kubectl. Mark the test `cluster`."""
    return made_by_cluster(repo_root, "clients") / "kubectl"
