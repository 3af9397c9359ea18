"""kubectl and helm against one cluster, as the tests of this folder use them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]
BETWEEN = re.compile(r"^---.*$", re.MULTILINE)  # documents, as kubectl reads them


@dataclass(frozen=True)
class Clients:
    """The two programs; `home` is theirs, so that no configuration of the user is read."""

    folder: Path
    decoders: Path
    home: Path

    def run(
        self, name: str, *argv: str | Path, text: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One command; without a kubeconfig it has no cluster to ask."""
        access = os.devnull if kubeconfig is None else str(kubeconfig)
        environment = {"HOME": str(self.home), "KUBECONFIG": access, "PATH": os.environ["PATH"]}
        return subprocess.run(
            [str(self.folder / name), *map(str, argv)],
            input=text, env=environment, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip

    def objects(self, name: str, *argv: str | Path) -> list[Object]:
        """The objects that a command prints."""
        done = self.run(name, *argv)
        assert done.returncode == 0, done.stderr
        found = [self.decoded("yaml", text=text) for text in BETWEEN.split(done.stdout)]
        return [each for each in found if each]

    def decoded(self, *argv: str | Path, text: str = "") -> Any:
        """What a decoder makes of a text or file."""
        done = subprocess.run(
            [str(self.decoders / "decode"), *map(str, argv)],
            input=text, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def kustomized(self, folder: Path) -> list[Object]:
        """What `kubectl apply -k` would send."""
        return self.objects("kubectl", "kustomize", folder)

    def templated(self, chart: Path, *argv: str) -> list[Object]:
        """What `helm install` would send."""
        known = ("--api-versions", "monitoring.coreos.com/v1")
        return self.objects("helm", "template", "release", chart, *known, *argv)


@dataclass(frozen=True)
class Cluster:
    """A cluster that the tests may use, and the clients for it."""

    clients: Clients
    kubeconfig: Path

    def kubectl(self, *argv: str | Path, text: str | None = None) -> str:
        """What a kubectl command prints; it must succeed."""
        done = self.clients.run("kubectl", *argv, text=text, kubeconfig=self.kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusals(self, objects: Sequence[Object]) -> str:
        """What the server says against objects, unknown fields included; nothing is kept."""
        # As JSON: what a word of YAML means depends on its reader.
        whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        done = self.clients.run(
            "kubectl", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
            text=json.dumps(whole), kubeconfig=self.kubeconfig,
        )  # fmt: skip
        if done.returncode == 0 and "Warning" not in done.stderr:
            return ""
        return done.stderr or done.stdout
