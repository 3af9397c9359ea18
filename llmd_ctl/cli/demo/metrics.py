"""The one number that only the router knows: how many requests it had to send again.

Called by `script` with the text of the router's /metrics.
"""

from __future__ import annotations

import re

RETRIES = re.compile(r"^llmd_router_retries_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)


def retried(metrics: str) -> dict[str, int | None]:
    """Attempts beyond a request's first: all, and those of requests that do not stream.

    The second is None when the router does not tell the two kinds apart.
    """
    found = [(m["labels"].split(","), int(float(m["value"]))) for m in RETRIES.finditer(metrics)]
    told = any(label.startswith("stream=") for labels, _ in found for label in labels)
    non_streams = sum(value for labels, value in found if 'stream="false"' in labels)
    return {"all": sum(value for _, value in found), "nonStreams": non_streams if told else None}
