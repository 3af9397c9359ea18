"""`ci/generate --lock`: what it asks of a registry, what it makes of each answer, what it writes.

The registry is a small server of this file's own, which follows the distribution specification in
what it answers; the real one of the distribution project is asked in tests/e2e/render.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import yaml

from ci import images
from ci.image_lock import __main__ as program
from ci.image_lock.login import BadLogin, DockerConfig
from ci.image_lock.registry import Reference, Registry, Unresolved

SECRET = "correct horse"
BASIC = f"Basic {base64.b64encode(f'ann:{SECRET}'.encode()).decode()}"
INDEX = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(INDEX).hexdigest()}"
OLD = "sha256:" + "0" * 64


@dataclass
class Scripted:
    """What the server does for one repository."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    digest: str | None = DIGEST
    login: str = ""  # "bearer", "basic", "open" for a token that anybody gets


@dataclass
class Server:
    """A registry with its server of tokens, and what it was asked."""

    host: str = ""
    images: dict[str, Scripted] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    token_status: int = 200
    token_body: Mapping[str, str] = field(default_factory=lambda: {"token": "t0"})

    def add(self, name: str, **script: Any) -> str:
        """An image's reference."""
        self.images[name] = Scripted(**script)
        return f"{self.host}/{name}:v1"


class Handler(BaseHTTPRequestHandler):
    """Answers as `Server` says."""

    registry: Server

    def do_HEAD(self) -> None:
        self.manifest()

    def do_GET(self) -> None:
        if self.path.startswith("/token"):
            asked = parse_qs(urlsplit(self.path).query)
            self.token(asked, self.headers.get("Authorization", ""))
        else:
            self.manifest()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = parse_qs(body)
        self.token(asked, asked.get("refresh_token", [""])[0])

    def token(self, asked: Mapping[str, list[str]], who: str) -> None:
        self.registry.asked.append(("TOKEN", asked["scope"][0]))
        known = asked["service"] == ["tests"] and (
            who in (BASIC, "identity") or asked["scope"] == ["repository:team/open:pull"]
        )
        status = self.registry.token_status if known else 401
        self.answer(status, {}, json.dumps(self.registry.token_body).encode())

    def manifest(self) -> None:
        found = re.fullmatch(r"/v2/(.+)/manifests/(.+)", self.path)
        assert found, self.path
        self.registry.asked.append((self.command, f"{found[1]}:{found[2]}"))
        script = self.registry.images.get(found[1])
        if script is None:
            self.answer(404, {}, b"{}")
            return
        wanted = {"": "", "basic": BASIC}.get(script.login, "Bearer t0")
        if self.headers.get("Authorization", "") != wanted:
            realm = f'realm="http://{self.registry.host}/token",service="tests"'
            kind = "Basic" if script.login == "basic" else "Bearer"
            self.answer(401, {"WWW-Authenticate": f"{kind} {realm}"}, b"{}")
            return
        assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
        told = {} if script.digest is None else {"Docker-Content-Digest": script.digest}
        self.answer(script.status, {**told, **script.headers}, INDEX)

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """No line for each request."""


@pytest.fixture
def server() -> Iterator[Server]:
    registry = Server()
    handler = type("Bound", (Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        registry.host = f"127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield registry
        http.shutdown()
        thread.join()


@contextmanager
def asking(config: Mapping[str, object] | None = None) -> Iterator[Registry]:
    with httpx.Client(timeout=5, follow_redirects=True) as client:
        yield Registry(client, DockerConfig(config or {}))


def digest(image: str, config: Mapping[str, object] | None = None) -> str:
    with asking(config) as registry:
        return registry.digest(image)


def refused(image: str, config: Mapping[str, object] | None = None) -> Unresolved:
    with pytest.raises(Unresolved) as raised:
        digest(image, config)
    assert raised.value.image == image
    assert SECRET not in f"{raised.value} {raised.value.remedy} {raised.value!r}"
    return raised.value


# --- names ---


@pytest.mark.parametrize(
    ("text", "root", "repository", "tag"),
    [
        ("rust:1.95", "https://registry-1.docker.io", "library/rust", "1.95"),
        ("a/b", "https://registry-1.docker.io", "a/b", "latest"),
        ("docker.io/a/b:c", "https://registry-1.docker.io", "a/b", "c"),
        ("ghcr.io/a/b/c:v1", "https://ghcr.io", "a/b/c", "v1"),
        ("x.example:5000/a", "https://x.example:5000", "a", "latest"),
        ("localhost:5000/a:b", "http://localhost:5000", "a", "b"),
        ("127.0.0.1:5000/a:b", "http://127.0.0.1:5000", "a", "b"),
        ("localhost.example/a:b", "https://localhost.example", "a", "b"),
    ],
)
def test_a_name_is_read_as_docker_reads_it(text: str, root: str, repository: str, tag: str) -> None:
    found = Reference.read(text)
    assert (found.root, found.repository, found.tag) == (root, repository, tag)


# --- digests ---


def test_the_digest_is_the_one_that_the_registry_tells(server: Server) -> None:
    assert digest(server.add("a/b")) == DIGEST
    assert server.asked == [("HEAD", "a/b:v1")]


def test_one_that_is_not_told_is_counted_out(server: Server) -> None:
    assert digest(server.add("a/b", digest=None)) == DIGEST
    assert [method for method, _ in server.asked] == ["HEAD", "GET"]


def test_what_is_no_digest_is_refused(server: Server) -> None:
    assert "no digest" in refused(server.add("a/b", digest="sha512:00")).why


def test_a_registry_that_has_moved_is_followed(server: Server) -> None:
    server.add("new/b")
    target = f"http://{server.host}/v2/new/b/manifests/v1"
    assert digest(server.add("old/b", status=307, headers={"Location": target})) == DIGEST


# --- who asks ---


def logins(host: str, **said: str) -> dict[str, object]:
    return {"auths": {f"https://{host}/v2/": said}}


def test_a_token_that_anybody_gets_is_fetched(server: Server) -> None:
    assert digest(server.add("team/open", login="open")) == DIGEST
    assert server.asked[1] == ("TOKEN", "repository:team/open:pull")


@pytest.mark.parametrize("kind", ["bearer", "basic"])
def test_a_login_of_docker_is_used_and_another_refused(server: Server, kind: str) -> None:
    image = server.add("a/b", login=kind)
    pair = base64.b64encode(f"ann:{SECRET}".encode()).decode()
    assert digest(image, logins(server.host, auth=pair)) == DIGEST
    error = refused(image, logins(server.host, username="ann", password=f"{SECRET}!"))
    assert "401" in error.why
    assert f"docker login {server.host}" in error.remedy
    assert "401" in refused(image).why
    assert "401" in refused(image, logins("other.example", auth=pair)).why


def test_a_token_of_identity_is_exchanged(server: Server) -> None:
    server.token_body = {"access_token": "t0"}
    image = server.add("a/b", login="bearer")
    assert digest(image, logins(server.host, identitytoken="identity")) == DIGEST


def test_a_server_of_tokens_without_one_is_told(server: Server) -> None:
    server.token_body = {"secret": SECRET}
    assert "no token" in refused(server.add("team/open", login="open")).why
    server.token_status = 503
    assert "503" in refused(server.add("team/open", login="open")).why


def program_of_logins(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    file = folder / "docker-credential-tests"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_program_that_keeps_logins_is_asked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = server.add("a/b", login="bearer")
    answer = json.dumps({"Username": "ann", "Secret": SECRET})
    script = f'[ "$1 $(cat)" = "get {server.host}" ] || exit 1; echo \'{answer}\''
    program_of_logins(tmp_path, monkeypatch, script)
    assert digest(image, {"credsStore": "tests"}) == DIGEST
    assert digest(image, {"credHelpers": {server.host: "tests"}}) == DIGEST
    assert "401" in refused(image, {"credHelpers": {"other.example": "tests"}}).why
    token = json.dumps({"Username": "<token>", "Secret": "identity"})
    program_of_logins(tmp_path, monkeypatch, f"echo '{token}'")
    assert digest(image, {"credsStore": "tests"}) == DIGEST
    program_of_logins(tmp_path, monkeypatch, f"echo '{SECRET}'")
    assert (
        "docker-credential-tests answers with no login"
        in refused(image, {"credsStore": "tests"}).why
    )
    missing = refused(image, {"credsStore": "nowhere"})
    assert "docker-credential-nowhere" in missing.why
    assert "PATH" in missing.remedy


def test_the_hub_is_known_by_the_names_that_docker_gives_it() -> None:
    pair = base64.b64encode(b"ann:x").decode()
    config = DockerConfig({"auths": {"https://index.docker.io/v1/": {"auth": pair}}})
    login = config.login("registry-1.docker.io")
    assert login is not None
    assert (login.user, login.password) == ("ann", "x")
    assert "ann" not in repr(login)
    assert pair not in repr(config)


def test_a_damaged_configuration_is_named_and_not_quoted(tmp_path: Path) -> None:
    environment = {"DOCKER_CONFIG": str(tmp_path)}
    assert DockerConfig.read(environment) == DockerConfig()
    for text in (f'{{"auths": "{SECRET}"', "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(BadLogin, match=r"config\.json") as raised:
            DockerConfig.read(environment)
        assert SECRET not in str(raised.value)
    with pytest.raises(BadLogin, match="damaged"):
        DockerConfig({"auths": {"a": {"auth": "%%"}}}).login("a")


def test_proxies_are_those_of_the_environment_then_of_docker() -> None:
    said = {"httpProxy": "http://p:1", "httpsProxy": "http://p:2", "noProxy": "x"}
    environment = {"HTTPS_PROXY": "http://own:3"}
    DockerConfig({"proxies": {"default": said}}).set_proxies(environment)
    assert environment == {
        "HTTPS_PROXY": "http://own:3", "http_proxy": "http://p:1", "no_proxy": "x",
    }  # fmt: skip


# --- refusals ---


@pytest.mark.parametrize(
    ("status", "headers", "remedy"),
    [
        (403, {}, "docker login"),
        (404, {}, "correct the name"),
        (429, {"Retry-After": "60"}, "again after 60 s"),
        (429, {}, "again later"),
        (500, {}, "docker pull"),
    ],
)
def test_an_answer_that_is_none_is_told_with_what_to_do(
    status: int, headers: Mapping[str, str], remedy: str, server: Server
) -> None:
    error = refused(server.add("a/b", status=status, headers=headers))
    assert str(status) in error.why
    assert server.host in error.why
    assert remedy in error.remedy


def test_a_registry_that_is_not_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        error = refused(f"127.0.0.1:{taken.getsockname()[1]}/a/b:c")
    assert "cannot be reached: ConnectError" in error.why
    assert "proxy" in error.remedy


def test_no_login_is_sent_where_anybody_could_read_it() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.scheme == "https"
        told = {"WWW-Authenticate": 'Bearer realm="http://tokens.example/",service="s"'}
        return httpx.Response(401, headers=told)

    pair = base64.b64encode(f"ann:{SECRET}".encode()).decode()
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        registry = Registry(client, DockerConfig({"auths": {"a.example": {"auth": pair}}}))
        with pytest.raises(Unresolved, match="without TLS"):
            registry.digest("a.example/b:c")


# --- files ---


def test_a_run_writes_what_it_learned_and_keeps_the_rest(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, same = server.add("a/new"), server.add("a/same")
    moved, gone = server.add("a/moved"), f"{server.host}/a/gone:v1"
    file = tmp_path / "lock.yaml"
    before = {same: DIGEST, moved: OLD, gone: OLD, "a/dropped:v1": OLD}
    file.write_text("# Kept.\n" + yaml.safe_dump(before))
    lock = program.Lock(file, (gone, moved, new, same))
    with asking() as registry:
        assert program.update((lock,), registry) == 1
    out, err = capsys.readouterr()
    assert f"{moved}: {DIGEST} (changed)" in out
    assert f"{same}: {DIGEST} (as it was)" in out
    assert f"{new}: {DIGEST} (new)" in out
    assert "3 of 4 images" in out
    assert f"error: {gone}: " in err
    assert "hint: " in err
    assert file.read_text().startswith("# Kept.\n")
    assert lock.read() == {gone: OLD, moved: DIGEST, new: DIGEST, same: DIGEST}
    assert [path.name for path in tmp_path.iterdir()] == ["lock.yaml"]
    whole = program.Lock(file, (new, same))
    with asking() as registry:
        assert program.update((whole,), registry) == 0


def test_one_image_in_two_locks_is_asked_for_once(server: Server, tmp_path: Path) -> None:
    image = server.add("a/b")
    locks = tuple(program.Lock(tmp_path / name, (image,)) for name in ("a.yaml", "b.yaml"))
    for lock in locks:
        lock.file.write_text("# Head.\n")
    with asking() as registry:
        assert program.update(locks, registry) == 0
    assert server.asked == [("HEAD", "a/b:v1")]
    assert [lock.read() for lock in locks] == [{image: DIGEST}] * 2


def test_a_lock_that_cannot_be_written_stays_whole(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lock.yaml"
    file.write_text("# Head.\na/b:v1: null\n")
    before = file.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        program.Lock(file, (server.add("a/b"),)).write({})
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["lock.yaml"]


def test_every_lock_names_what_it_has_to_and_offline_asks_nobody() -> None:
    for lock in program.locks():
        assert tuple(lock.read()) == lock.names, "run `python -m ci.image_lock --offline`"
        for found in lock.read().values():
            assert found is None or re.fullmatch(r"sha256:[0-9a-f]{64}", found)
    named = {name for lock in program.locks() for name in lock.names}
    for folder in ("amd", "gaudi", "nvidia", "router", "tpu"):
        assert set(images.bases(folder)) <= named
    assert "vllm/vllm-openai:v0.32.0" in program.rendered()
    assert not any("llmd-ctl" in name for name in named)


def test_a_configuration_that_cannot_be_read_ends_it_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text("{")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["generate"])
    with pytest.raises(SystemExit, match="hint: mend it"):
        program.main()
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("HTTPS_PROXY", f"odd://ann:{SECRET}@p")
    with pytest.raises(SystemExit, match="a proxy cannot be used") as raised:
        program.main()
    assert SECRET not in str(raised.value)
