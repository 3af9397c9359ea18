"""The one number that only the router knows: how many requests it had to send again.

Called by `script` with the text of the router's /metrics.
"""

from __future__ import annotations

import re

RETRIES = re.compile(r"^llmd_router_retries_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)


def retried(metrics: str) -> dict[str, int]:
    """Attempts beyond a request's first: all, and those of requests that do not stream."""
    found = [(m["labels"].split(","), int(float(m["value"]))) for m in RETRIES.finditer(metrics)]
    return {
        "all": sum(value for _, value in found),
        "nonStreams": sum(value for labels, value in found if 'stream="false"' in labels),
    }
