"""What a container needs to reach an accelerator, and which images hold the engine.

Types of `kind: AcceleratorProfile`, filled in by `document`. What renders containers reads them; a
target `local` starts processes and uses none of it. Nothing here pulls or builds an image.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from llmd_ctl.profiles import number
from llmd_ctl.profiles.number import Cited, Unknown


class Image(Cited, frozen=True):
    """The published image of one version of an engine."""

    reference: Annotated[
        str | None, Unknown("no image can be rendered; the fleet has to name one")
    ]  # with its tag
    digest: Annotated[str | None, Unknown("the tag is rendered, with a warning that names it")] = (
        None  # sha256:…
    )
    user: Annotated[
        str | None, Unknown("the container is not told to run as anybody but the image's own user")
    ] = None
    recipe: str = ""  # the folder of `images/` that builds on it; empty: taken as it is
    note: str = ""


class Driver(Cited, frozen=True):
    """The oldest driver, or system software, of the machine that goes with the images."""

    minimum: Annotated[str | None, Unknown("no driver is refused as too old")]


class VisibleDevices(Cited, frozen=True):
    """How an engine is told which devices of its machine are its own, where nobody hands them out.

    Numbers count from 0, each for `devices` of them. A container's runtime may take a variable of
    its own, or a request to `driver`, and then shows the engine only these.
    """

    variable: str
    devices: int = 1
    container_variable: str = ""
    driver: str = ""
    privileged: bool = False  # in a container
    paths: tuple[str, ...] = ()  # below /dev, for a container, beside those of `container`
    classes: tuple[str, ...] = ()  # of /proc/devices, for a unit


class Container(Struct, frozen=True):
    """What a container gets beside the devices that its runtime puts into it."""

    shm_bytes: number.Shm  # of /dev/shm, in memory
    hugepages_bytes: number.Request | None = None  # None: needs none; else of 2 MiB each
    memory_bytes: number.Request | None = None  # None: what the fit says
    cpu_cores: number.Cores | None = None  # None: what the node has left
    capabilities: tuple[str, ...] = ()
    seccomp: Literal["RuntimeDefault", "Unconfined"] = "RuntimeDefault"
    host_ipc: bool = False
    devices: tuple[str, ...] = ()  # paths below /dev that no device plugin adds
    groups: tuple[str, ...] = ()  # supplemental groups, by name or number
    mounts: tuple[str, ...] = ()  # paths of the host that the driver needs
    runtime: Annotated[str | None, Unknown("the node's own container runtime is taken")] = None
    notes: tuple[str, ...] = ()  # what is needed only in some setups, in words
