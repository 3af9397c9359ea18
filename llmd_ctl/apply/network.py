"""Real HTTP: is an engine up and serving the right model, what does the router say.

Used through `NetworkPort`. Every failure becomes an answer with a reason; nothing is retried here,
since the loops that ask come back anyway.
"""

from __future__ import annotations

import httpx

from llmd_ctl.apply.machine import Health
from llmd_ctl.router.admin import RouterAdmin, RouterAway
from llmd_ctl.router.answer import Answer, RouterStatus

ENGINE_SECONDS = 2.0


class RealNetwork:
    """`NetworkPort` over one HTTP client that ignores proxies: everything asked is local."""

    def __init__(self) -> None:
        self._client = httpx.Client(trust_env=False)
        self._router = RouterAdmin(self._client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def engine(self, port: int, model: str) -> Health:
        """GET /health must be 200 and /v1/models must list the model (or have it as an alias)."""
        base = f"http://127.0.0.1:{port}"
        try:
            health = self._client.get(f"{base}/health", timeout=ENGINE_SECONDS)
            if health.status_code != httpx.codes.OK:
                return Health(ok=False, reason=f"/health answers {health.status_code}")
            names = _served_names(self._client.get(f"{base}/v1/models", timeout=ENGINE_SECONDS))
        except httpx.HTTPError as error:
            return Health(ok=False, reason=f"does not answer yet ({error or type(error).__name__})")
        except (ValueError, KeyError, TypeError, AttributeError):
            return Health(ok=False, reason="/v1/models does not answer with a list of models")
        if model in names:
            return Health(ok=True, reason="")
        reason = f"serves {', '.join(names) or 'no model'}, not {model}"
        return Health(ok=False, reason=reason, misnamed=bool(names))

    def router_status(self, admin_url: str) -> RouterStatus | None:
        """The router's own view, or None when it doesn't answer."""
        try:
            return self._router.status(admin_url)
        except RouterAway:
            return None

    def probe(self, admin_url: str, key: str, model: str, endpoint: str, seconds: float) -> Answer:
        """One token from one endpoint, through the router's data path."""
        try:
            return self._router.probe(admin_url, key, model, endpoint, seconds)
        except RouterAway as error:
            return Answer(ok=False, reason=str(error))

    def complete(self, url: str, model: str, certificate: str | None, seconds: float) -> Answer:
        """One token from the model, as a user would ask for it."""
        try:
            return self._router.complete(url, model, certificate, seconds)
        except RouterAway as error:
            return Answer(ok=False, reason=str(error))

    def shake_hands(self, url: str, certificate: str) -> Answer:
        """Whether the data port shows this certificate."""
        try:
            self._router.shake_hands(url, certificate)
        except RouterAway as error:
            return Answer(ok=False, reason=str(error))
        return Answer(ok=True, reason="")


def _served_names(response: httpx.Response) -> list[str]:
    names = []
    for item in response.json()["data"]:
        names += [item["id"], *item.get("aliases", [])]
    return names
