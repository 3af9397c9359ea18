"""A real cluster for rendered objects: our own on loopback, or that of LLMD_TEST_KUBECONFIG.

In a cluster of yours the definitions of custom resources that it lacks are added and stay; the
tests' own namespaces go.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.render.clients import Clients, Cluster
from tests.e2e.render.control_plane import control_plane

OWN_CLUSTER = "LLMD_TEST_KUBECONFIG"
ESTABLISHED_SECONDS = 120


def made_by_cluster(root: Path, part: str) -> Path:
    """Has ci/cluster make one part, and returns where it lies."""
    argv = [sys.executable, str(root / "ci" / "cluster"), part]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    return root / done.stdout.split()[-1]


@pytest.fixture(scope="session")
def clients(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """Helm, kubectl, and what reads their output."""
    made = made_by_cluster(repo_root, "clients"), made_by_cluster(repo_root, "decoders")
    return Clients(*made, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def cluster(
    repo_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    free_ports: Callable[[int], list[int]],
    clients: Clients,
) -> Iterator[Cluster]:
    """A cluster with the definitions of every custom resource that is rendered."""
    named = os.environ.get(OWN_CLUSTER)
    if named:
        theirs = Cluster(clients, Path(named))
        define(theirs, repo_root)
        yield theirs
        return
    programs = made_by_cluster(repo_root, "programs")
    with control_plane(programs, tmp_path_factory.mktemp("cluster"), free_ports) as kubeconfig:
        ours = Cluster(clients, kubeconfig)
        define(ours, repo_root)
        yield ours


def define(cluster: Cluster, root: Path) -> None:
    """Adds the definitions that are missing, and waits until the server knows them."""
    files = sorted(made_by_cluster(root, "crds").glob("*.yaml"))
    files += sorted((root / "tests" / "crds").glob("*.yaml"))
    present = set(cluster.kubectl("get", "crd", "-o", "name").split())
    wanted = {f"customresourcedefinition.apiextensions.k8s.io/{crd_name(f)}": f for f in files}
    missing = [file for name, file in wanted.items() if name not in present]
    if missing:
        cluster.kubectl("apply", "--server-side", *(word for f in missing for word in ("-f", f)))
    wait = f"--timeout={ESTABLISHED_SECONDS}s"
    cluster.kubectl("wait", "--for=condition=Established", wait, *wanted)


def crd_name(file: Path) -> str:
    """The name of the definition in a file."""
    return str(yaml.safe_load(file.read_text())["metadata"]["name"])


@pytest.fixture(scope="session")
def namespace(cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """Makes a namespace unless it is there; those that it made go in the end."""
    made: list[str] = []

    def make(name: str) -> str:
        if (
            name
            not in cluster.kubectl("get", "namespace", "-o", "name")
            .replace("namespace/", "")
            .split()
        ):
            cluster.kubectl("create", "namespace", name)
            made.append(name)
        return name

    yield make
    for name in made:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
