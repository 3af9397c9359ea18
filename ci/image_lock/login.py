"""What docker's own configuration says: who one is at a registry, and through which proxy.

`$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`: logins in the file itself, and programs
that keep them (docker-credential-NAME). Called by `registry`. No secret is in a message or a repr.
"""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HUB = "registry-1.docker.io"
HUB_ADDRESS = "https://index.docker.io/v1/"  # what docker itself calls it, in files and to programs
HUB_HOSTS = {"index.docker.io", "docker.io", HUB}
TOKEN_USER = "<token>"  # so a program says that its secret is a token of identity
PROXIES = {"httpProxy": "http_proxy", "httpsProxy": "https_proxy", "noProxy": "no_proxy"}
HELPER_SECONDS = 30


class BadLogin(Exception):
    """The configuration cannot be used: what is wrong with it, and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Login:
    """Who one is at a registry: a name with its password, or a token of identity."""

    user: str = field(repr=False)
    password: str = field(repr=False)
    identity_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class DockerConfig:
    """The part of docker's configuration that is about registries."""

    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> DockerConfig:
        """Read the file; without one nothing is configured. Raises `BadLogin`."""
        folder = environment.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
        file = Path(folder) / "config.json"
        try:
            data = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            why = f"{file} cannot be read as JSON: {type(error).__name__}"
            raise BadLogin(why, "mend it, or name another folder by DOCKER_CONFIG") from error
        if not isinstance(data, dict):
            raise BadLogin(f"{file} is no map", "mend it, or name another folder by DOCKER_CONFIG")
        return cls(data)

    def login(self, host: str) -> Login | None:
        """Return the login for a registry, or None. Raises `BadLogin`."""
        names = HUB_HOSTS if host in HUB_HOSTS else {host}
        by_host = {_host(key): name for key, name in self._map("credHelpers").items()}
        helper = next((by_host[name] for name in names if name in by_host), None)
        helper = helper or self.data.get("credsStore")
        if helper:
            return _helped(str(helper), HUB_ADDRESS if host in HUB_HOSTS else host)
        for key, said in self._map("auths").items():
            if _host(key) in names and isinstance(said, dict):
                return _written(said, host)
        return None

    def set_proxies(self, environment: MutableMapping[str, str]) -> None:
        """Set what the environment itself does not say of proxies."""
        known = self._map("proxies").get("default")
        for key, name in PROXIES.items():
            value = known.get(key) if isinstance(known, dict) else None
            if value and name not in environment and name.upper() not in environment:
                environment[name] = str(value)

    def _map(self, key: str) -> Mapping[str, Any]:
        found = self.data.get(key)
        return found if isinstance(found, dict) else {}


def _host(key: str) -> str:
    """The host of an address, as docker writes it: with or without a scheme and a path."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _written(said: Mapping[str, Any], host: str) -> Login | None:
    user, password = str(said.get("username", "")), str(said.get("password", ""))
    if said.get("auth"):
        try:
            text = base64.b64decode(str(said["auth"]), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            why = f"docker's login for {host} is damaged"
            raise BadLogin(why, f"run `docker login {host}` again") from error
        user, _, password = text.partition(":")
    token = str(said.get("identitytoken", ""))
    return Login(user, password.rstrip("\0"), token) if user or token else None


def _helped(name: str, address: str) -> Login | None:
    """What a program says; that it knows no login for this address is no error of it."""
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run(
            [program, "get"], input=address, capture_output=True, text=True, check=False,
            timeout=HELPER_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"{program} cannot be asked for a login: {type(error).__name__}"
        raise BadLogin(why, f"put {program} on PATH, or take it out of docker's config.json") from (
            error
        )
    if done.returncode:
        return None
    try:
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):  # no cause: it may quote the secret
        why = f"{program} answers with no login"
        raise BadLogin(why, "see what `docker login` says") from None
    return Login("", "", secret) if user == TOKEN_USER else Login(user, secret)
