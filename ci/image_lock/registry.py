"""The digest of an image, asked of its registry: API v2, as the distribution specification has it.

A HEAD of the tag's manifest; of an image for several platforms that is the index over them. Who has
to be known is known by a token or by a password, from docker's own configuration. Called by
`__main__`. It pulls nothing, and no secret is ever in a message.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

import httpx

from ci.image_lock.login import HUB, BadLogin, DockerConfig

ACCEPT = ", ".join((
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
))  # fmt: skip
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?")
PARAMETER = re.compile(r'(\w+)="([^"]*)"')
SECONDS = 30.0
CLIENT = "llmd-ctl"


class Unresolved(Exception):
    """A registry gave no digest: the image, why, and what to do."""

    def __init__(self, image: str, why: str, remedy: str) -> None:
        super().__init__(f"{image}: {why}")
        self.image = image
        self.why = why
        self.remedy = remedy


@dataclass(frozen=True)
class Reference:
    """An image's name, as docker reads it."""

    text: str
    host: str
    repository: str
    tag: str

    @classmethod
    def read(cls, text: str) -> Reference:
        """Take a name apart: a first part with a dot, a colon, or `localhost` is a host."""
        name, _, tag = text.rpartition(":")
        if not name or "/" in tag:
            name, tag = text, "latest"
        host, slash, rest = name.partition("/")
        if slash and (host == "localhost" or "." in host or ":" in host):
            return cls(text, HUB if host == "docker.io" else host, rest, tag)
        return cls(text, HUB, name if slash else f"library/{name}", tag)

    @property
    def root(self) -> str:
        """Where the registry answers. Docker, too, trusts this machine without TLS."""
        scheme = "http" if LOOPBACK.fullmatch(self.host) else "https"
        return f"{scheme}://{self.host}"


@dataclass(frozen=True)
class Registry:
    """Asks for digests, through one client and with one configuration."""

    client: httpx.Client
    config: DockerConfig

    def digest(self, image: str) -> str:
        """Return the digest that a tag has now. Raises `Unresolved`."""
        reference = Reference.read(image)
        try:
            return self._digest(reference)
        except BadLogin as error:
            raise Unresolved(image, error.message, error.remedy) from error
        except (httpx.RequestError, httpx.InvalidURL) as error:
            why = f"{reference.host} cannot be reached: {type(error).__name__}: {error}"
            remedy = "see to the network and to a proxy (HTTPS_PROXY, or docker's config.json)"
            raise Unresolved(image, why, remedy) from error

    def _digest(self, reference: Reference) -> str:
        headers = {"Accept": ACCEPT}
        answer = self._asked("HEAD", reference, headers)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            challenge = answer.headers.get("www-authenticate", "")
            headers["Authorization"] = self._authorization(reference, challenge)
            answer = self._asked("HEAD", reference, headers)
        _judge(reference, answer)
        digest = answer.headers.get("docker-content-digest", "")
        if not digest:  # a registry need not say it
            answer = self._asked("GET", reference, headers)
            _judge(reference, answer)
            digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        if not DIGEST.fullmatch(digest):
            why = f"{reference.host} answers with no digest of sha256"
            raise Unresolved(reference.text, why, "see whether it is a registry of images (API v2)")
        return str(digest)

    def _asked(self, method: str, reference: Reference, headers: dict[str, str]) -> httpx.Response:
        url = f"{reference.root}/v2/{reference.repository}/manifests/{reference.tag}"
        return self.client.request(method, url, headers=headers)

    # --- who asks ---

    def _authorization(self, reference: Reference, challenge: str) -> str:
        """Return the header that a challenge asks for."""
        scheme, _, rest = challenge.partition(" ")
        told = dict(PARAMETER.findall(rest))
        if scheme.lower() == "bearer" and "realm" in told:
            return f"Bearer {self._token(reference, told)}"
        login = self.config.login(reference.host)
        if scheme.lower() != "basic" or login is None:
            raise _refused(reference, httpx.codes.UNAUTHORIZED)
        pair = f"{login.user}:{login.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def _token(self, reference: Reference, told: dict[str, str]) -> str:
        """Return a token for reading this repository, of the server that the registry names."""
        realm = told["realm"]
        if reference.root.startswith("https:") and not realm.startswith("https:"):
            why = f"{reference.host} wants a login sent without TLS"
            raise Unresolved(reference.text, why, "name the image by a registry that does not")
        scope = told.get("scope") or f"repository:{reference.repository}:pull"
        asked = {"service": told["service"]} if "service" in told else {}
        asked["scope"] = scope
        login = self.config.login(reference.host)
        if login is not None and login.identity_token:
            form = {"grant_type": "refresh_token", "client_id": CLIENT,
                    "refresh_token": login.identity_token}  # fmt: skip
            answer = self.client.post(realm, data={**asked, **form})
        else:
            auth = None if login is None else httpx.BasicAuth(login.user, login.password)
            answer = self.client.get(realm, params=asked, auth=auth)
        _judge(reference, answer)
        try:
            body = answer.json()
            token = body.get("token") or body["access_token"]
        except (ValueError, KeyError, AttributeError):  # no cause: it may quote a token
            why = f"the server of tokens of {reference.host} answers with no token"
            raise Unresolved(reference.text, why, "see what `docker pull` says") from None
        return str(token)


def _judge(reference: Reference, answer: httpx.Response) -> None:
    """Raise `Unresolved` for an answer that is none."""
    code = answer.status_code
    if code == httpx.codes.OK:
        return
    if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise _refused(reference, code)
    if code == httpx.codes.NOT_FOUND:
        why = f"{reference.host} has no such image or tag (404)"
        raise Unresolved(reference.text, why, "correct the name where it is written")
    if code == httpx.codes.TOO_MANY_REQUESTS:
        wait = answer.headers.get("retry-after", "")
        when = f" after {wait} s" if wait.isdigit() else " later"
        why = f"{reference.host} takes no more requests (429)"
        remedy = f"run it again{when}; `docker login` raises the limit on many registries"
        raise Unresolved(reference.text, why, remedy)
    why = f"{reference.host} answers {code}"
    raise Unresolved(reference.text, why, "see what `docker pull` says, and run it again")


def _refused(reference: Reference, code: int) -> Unresolved:
    host = "" if reference.host == HUB else f" {reference.host}"
    why = f"{reference.host} lets nobody read it without a login that may ({code})"
    remedy = f"run `docker login{host}`; or correct the name: some answer so for what is not there"
    return Unresolved(reference.text, why, remedy)
