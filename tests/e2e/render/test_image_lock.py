"""Digests asked of a real registry: the handlers of the distribution project (tests/registry)."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ci.image_lock import __main__ as program
from ci.image_lock.login import DockerConfig
from ci.image_lock.registry import Registry, Unresolved
from tests.e2e.render.conftest import made_by_cluster

pytestmark = pytest.mark.cluster

PASSWORD = "correct horse"
HTPASSWD = "ann:$2a$04$DOh2gOdZzIZwdt22gDflg.3iC5NHduEXJq/FCIocXmWmZ4hZFvVN6\n"
MANIFEST, INDEX = (f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index"))


@contextmanager
def serving(root: Path, *words: str | Path) -> Iterator[str]:
    """A registry's host and port."""
    argv = [str(made_by_cluster(root, "registry") / "registry"), "127.0.0.1:0", *map(str, words)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def pushed_blob(client: httpx.Client, repository: str, body: bytes) -> Mapping[str, object]:
    """A blob, as a manifest names it."""
    started = client.post(f"/v2/{repository}/blobs/uploads/")
    assert started.status_code == 202
    address = httpx.URL(started.headers["Location"]).copy_merge_params({"digest": digest_of(body)})
    assert client.put(address, content=body).status_code == 201
    return {"digest": digest_of(body), "size": len(body)}


def pushed(client: httpx.Client, name: str, tag: str, kind: str, said: Mapping[str, object]) -> str:
    """The digest of a manifest that was pushed."""
    body = json.dumps({"schemaVersion": 2, "mediaType": kind, **said}).encode()
    address = f"/v2/{name}/manifests/{tag}"
    answer = client.put(address, content=body, headers={"Content-Type": kind})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Docker-Content-Digest"] == digest_of(body)
    return digest_of(body)


def image(client: httpx.Client, name: str, tag: str, architecture: str) -> str:
    """The digest of an image for one platform."""
    config = json.dumps({"os": "linux", "architecture": architecture}).encode()
    kind = "application/vnd.oci.image.config.v1+json"
    config_blob = {"mediaType": kind, **pushed_blob(client, name, config)}
    said: Mapping[str, object] = {"config": config_blob, "layers": []}
    return pushed(client, name, tag, MANIFEST, said)


def index(client: httpx.Client, name: str, tag: str) -> str:
    """The digest of an image for two platforms."""
    parts = []
    for architecture in ("amd64", "arm64"):
        digest = image(client, name, f"{tag}-{architecture}", architecture)
        told = client.head(f"/v2/{name}/manifests/{digest}", headers={"Accept": MANIFEST})
        size = int(told.headers["Content-Length"])
        platform = {"os": "linux", "architecture": architecture}
        parts.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
    return pushed(client, name, tag, INDEX, {"manifests": parts})


@contextmanager
def asking(config: Mapping[str, object]) -> Iterator[Registry]:
    with httpx.Client(timeout=30, follow_redirects=True) as client:
        yield Registry(client, DockerConfig(config))


def test_the_digest_of_a_tag_is_of_the_index_over_its_platforms(repo_root: Path) -> None:
    with (
        serving(repo_root) as host,
        httpx.Client(base_url=f"http://{host}") as client,
        asking({}) as registry,
    ):
        both, one = index(client, "team/both", "v1"), image(client, "team/one", "v1", "amd64")
        assert registry.digest(f"{host}/team/both:v1") == both
        assert registry.digest(f"{host}/team/one:v1") == one
        moved = image(client, "team/one", "v1", "arm64")
        assert moved != one
        assert registry.digest(f"{host}/team/one:v1") == moved
        for missing in (f"{host}/team/one:v2", f"{host}/team/none:v1"):
            with pytest.raises(Unresolved, match="404"):
                registry.digest(missing)


def test_a_registry_with_passwords_is_asked_with_docker_s_login(
    repo_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    with serving(repo_root, tmp_path / "htpasswd") as host:
        with httpx.Client(base_url=f"http://{host}", auth=("ann", PASSWORD)) as client:
            digest = image(client, "team/one", "v1", "amd64")
        for word, right in ((PASSWORD, True), ("another", False)):
            pair = base64.b64encode(f"ann:{word}".encode()).decode()
            with asking({"auths": {host: {"auth": pair}}}) as registry:
                if right:
                    assert registry.digest(f"{host}/team/one:v1") == digest
                else:
                    with pytest.raises(Unresolved, match="401"):
                        registry.digest(f"{host}/team/one:v1")
        with asking({}) as registry, pytest.raises(Unresolved, match="401"):
            registry.digest(f"{host}/team/one:v1")


def test_a_lock_is_filled_and_what_is_not_there_keeps_its_line(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        serving(repo_root) as host,
        httpx.Client(base_url=f"http://{host}") as client,
        asking({}) as registry,
    ):
        digest = index(client, "team/both", "v1")
        there, gone = f"{host}/team/both:v1", f"{host}/team/gone:v1"
        file = tmp_path / "lock.yaml"
        file.write_text(f"# Head.\n{there}: null\n{gone}: {'sha256:' + '0' * 64}\n")
        lock = program.Lock(file, (there, gone))
        assert program.update((lock,), registry) == 1
        assert lock.read() == {there: digest, gone: "sha256:" + "0" * 64}
        assert program.update((program.Lock(file, (there,)),), registry) == 0
    assert f"error: {gone}: " in capsys.readouterr().err
