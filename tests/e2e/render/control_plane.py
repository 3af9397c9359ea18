"""A real Kubernetes API on loopback: etcd and kube-apiserver alone.

Objects are checked and kept, and nothing runs. For the tests of this folder; it ends with the
context.
"""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 240.0  # for a machine that does much else; a free one takes 10
SERVICE_ACCOUNTS = "https://kubernetes.default.svc"


@contextmanager
def control_plane(
    programs: Path, folder: Path, free_ports: Callable[[int], list[int]]
) -> Iterator[Path]:
    """Starts both programs, and gives the kubeconfig; all their files are in `folder`."""
    etcd, peer, api = (f"127.0.0.1:{port}" for port in free_ports(3))
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key = folder / "sa.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    with (
        running([programs / "etcd", *etcd_flags(folder, etcd, peer)], folder) as first,
        running([programs / "kube-apiserver", *api_flags(folder, etcd, api)], folder) as second,
    ):
        answers(first, f"http://{etcd}/health", token)
        answers(second, f"https://{api}/readyz", token)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(access(f"https://{api}", folder, token)))
        yield kubeconfig


def etcd_flags(folder: Path, client: str, peer: str) -> list[str]:
    """One member, whose data may be lost."""
    return [
        f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=warn",
        f"--listen-client-urls=http://{client}", f"--advertise-client-urls=http://{client}",
        f"--listen-peer-urls=http://{peer}", f"--initial-advertise-peer-urls=http://{peer}",
        f"--initial-cluster=default=http://{peer}",
    ]  # fmt: skip


def api_flags(folder: Path, etcd: str, api: str) -> list[str]:
    """On loopback, which is no address for the server's own Endpoints."""
    return [
        f"--etcd-servers=http://{etcd}", f"--secure-port={api.split(':')[1]}",
        "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none", f"--cert-dir={folder}/certs",
        "--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true",
        "--authorization-mode=RBAC", f"--token-auth-file={folder}/tokens.csv",
        f"--service-account-issuer={SERVICE_ACCOUNTS}",
        f"--service-account-key-file={folder}/sa.key",
        f"--service-account-signing-key-file={folder}/sa.key",
    ]  # fmt: skip


def access(server: str, folder: Path, token: str) -> dict[str, object]:
    """The kubeconfig. The server made its certificate itself: it vouches for itself."""
    cluster = {"server": server, "certificate-authority": f"{folder}/certs/apiserver.crt"}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }  # fmt: skip


@contextmanager
def running(argv: list[str | Path], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of its own log; nothing of it is kept, so it is killed in the end."""
    with (folder / f"{Path(argv[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def answers(process: subprocess.Popen[bytes], url: str, token: str) -> None:
    """Waits until a program answers with success."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        with suppress(OSError), urllib.request.urlopen(request, timeout=5, context=trusting):
            return
        time.sleep(0.1)
    raise AssertionError(f"{process.args!r} does not answer")
