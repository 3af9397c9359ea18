"""The Gateway of a cluster through which requests come to the router: which, and in what pods.

A section of `fleet`. The Gateway itself is made by others; routes on it are what is rendered.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmd_ctl.spec.fields import Name
from llmd_ctl.spec.place_fields import KubeName, LabelKey, LabelValue, RouteHost
from llmd_ctl.spec.section import Section


class GatewayPods(Section):
    """The pods that carry its requests: all of a namespace, or those with labels."""

    namespace: Name
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)


class Gateway(Section):
    """A Gateway. `namespace` None is the target's, `hostnames` empty all of the Gateway's.

    `pods` None: nobody knows where it runs.
    """

    name: KubeName
    namespace: Name | None = None
    hostnames: Annotated[list[RouteHost], Field(max_length=16)] = Field(default_factory=list)
    pods: GatewayPods | None = None
