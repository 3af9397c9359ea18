"""Target compose: compose.yaml for one machine, a service for each replica, the router in front.

The router finds replicas by the names of their services. Secrets, and the key of the router's admin
port, are files in secrets/ beside compose.yaml, which nobody renders. Found by `targets`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field, to_builtins

from llmd_ctl.plan import CONFIG, HOST, PORT, PYTHON, Plan
from llmd_ctl.plan.dealing import Seat
from llmd_ctl.plan.place import Container, HostDevices, Place, PlannedTarget, Secret
from llmd_ctl.render.addresses import (
    ANYWHERE,
    IN_CONTAINER,
    device_env,
    engine_text,
    is_router_here,
    numbers,
    router_yaml,
    seats,
)
from llmd_ctl.render.certificates import moved
from llmd_ctl.render.file import RenderedFile, header
from llmd_ctl.render.process import DEFAULT_STARTUP_SECONDS
from llmd_ctl.render.router import Listen
from llmd_ctl.render.yaml_text import yaml_text

ETC, CACHE = "/etc/llmd-ctl", "/var/cache/llmd"
CERTIFICATES = f"{ETC}/certificates"
DATA, ADMIN = 8000, 9090
ROUTER = "router"  # no name of a replica, which all end in a number
VOLUME = "cache"
DRAIN_MS, MARGIN_SECONDS = 30_000, 15  # the router's own default; what a process takes to end
HUGE_PAGE = 2 << 20
SIMULATED = ("llmd-engine", "--config")
ASK = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{IN_CONTAINER}/health', timeout=5)"
HOW = """\
# To start: docker compose up --detach --wait (Compose 2.30 or newer).
# Secrets are files of variables in secrets/, NAME.env each. secrets/admin.key is the key of the
# router's admin port: any long text, readable for the router's user.
"""


class Bind(Struct, frozen=True):
    """What a container sees of the machine; a path that is not there is an error, and not made."""

    source: str
    target: str
    read_only: bool = True
    type: str = "bind"
    bind: Mapping[str, bool] = field(default_factory=lambda: {"create_host_path": False})


class Named(Struct, frozen=True):
    """A volume of the project."""

    source: str
    target: str
    type: str = "volume"


class EnvFile(Struct, frozen=True):
    """A file of variables, taken as they stand: nothing in it is expanded."""

    path: str
    required: bool = True
    format: str = "raw"


class Request(Struct, frozen=True):
    """Devices that the container runtime hands in."""

    driver: str
    device_ids: tuple[str, ...]
    capabilities: tuple[str, ...] = ("gpu",)


class Healthcheck(Struct, frozen=True):
    """How it is seen that a container serves."""

    test: tuple[str, ...]
    start_period: str
    interval: str = "10s"
    timeout: str = "10s"
    retries: int = 30


class Service(Struct, frozen=True):
    """A service, in compose's own keys. What is empty is left out."""

    image: str
    entrypoint: tuple[str, ...]
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    env_file: tuple[EnvFile, ...] = ()
    ports: tuple[str, ...] = ()
    volumes: tuple[Bind | Named, ...] = ()
    devices: tuple[str, ...] = ()
    deploy: Mapping[str, Any] = field(default_factory=dict)
    runtime: str | None = None
    privileged: bool | None = None
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    group_add: tuple[str, ...] = ()
    ipc: str | None = None
    shm_size: int | None = None
    cpus: float | None = None
    mem_limit: int | None = None
    healthcheck: Healthcheck | None = None
    stop_grace_period: str | None = None
    restart: str = "unless-stopped"


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """compose.yaml, and what is mounted into its containers."""
    found = seats(plan, target)
    services = {seat.name: _engine(plan, seat) for seat in found}
    files = [
        RenderedFile(_config(seat)[2:], engine_text(seat, ANYWHERE, IN_CONTAINER))
        for seat in found
        if seat.variant.simulated
    ]
    if is_router_here(plan, target):
        there, certificates = moved(plan, CERTIFICATES)
        services[ROUTER] = _router(plan, certificates)
        listen = Listen(f"{ANYWHERE}:{DATA}", f"{ANYWHERE}:{ADMIN}")
        text = router_yaml(there, target, listen, f"{ETC}/admin.key")
        files.append(RenderedFile("router.yaml", text))
    document: dict[str, Any] = {
        "name": plan.fleet,
        "services": {name: _plain(to_builtins(service)) for name, service in services.items()},
    }
    kept = any(isinstance(each, Named) for service in services.values() for each in service.volumes)
    if kept:
        document["volumes"] = {VOLUME: {}}
    top = header(plan, target.name) + HOW + _huge_pages(found)
    files.append(RenderedFile("compose.yaml", top + yaml_text(document)))
    return tuple(sorted(files, key=lambda file: file.path))


def _plain(value: Any) -> Any:
    """Without what is empty or not said, which compose would take for said; `entrypoint` stays."""
    if isinstance(value, Mapping):
        kept = {key: _plain(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [])}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _huge_pages(found: tuple[Seat, ...]) -> str:
    places = [seat.variant.place for seat in found if seat.variant.place is not None]
    pages = sum((place.container.hugepages_bytes or 0) // HUGE_PAGE for place in places)
    return (
        f"# The machine has to set aside huge pages: vm.nr_hugepages = {pages}\n" if pages else ""
    )


def escaped(value: str) -> str:
    """A text that compose hands on as it is: it expands $NAME, and reads $$ as $."""
    return value.replace("$", "$$")


def _variables(env: Mapping[str, str]) -> dict[str, str]:
    return {name: escaped(env[name]) for name in sorted(env)}


def _env_files(secrets: tuple[Secret, ...]) -> tuple[EnvFile, ...]:
    return tuple(EnvFile(f"./secrets/{secret.name}.env") for secret in secrets)


def _grace(plan: Plan) -> str:
    said = plan.resilience.limits.drain_ms
    return f"{-(-(DRAIN_MS if said is None else said) // 1000) + MARGIN_SECONDS}s"


# --- engines ---


def _config(seat: Seat) -> str:
    return f"./engines/{seat.name}.json"


def _engine(plan: Plan, seat: Seat) -> Service:
    variant = seat.variant
    place = variant.place or Place()
    given, known = place.container, variant.host_devices
    config = f"{ETC}/engine.json"
    open_places = {HOST: ANYWHERE, PORT: str(IN_CONTAINER), PYTHON: "python3", CONFIG: config}
    argv = [open_places.get(each, each) for each in variant.command]
    if variant.simulated:
        argv = [*SIMULATED, config]
    caches = {name: f"{CACHE}/{folder}" for name, folder in place.cache.variables.items()}
    env = {**caches, **_own_devices(seat), **variant.env}
    return Service(
        image=place.image.pinned if place.image is not None else "",
        entrypoint=tuple(map(escaped, argv)),
        environment=_variables(env),
        env_file=_env_files(place.secrets),
        volumes=tuple(_volumes(seat, place)),
        devices=tuple(f"{path}:{path}" for path in _paths(given, known)),
        deploy=_deploy(seat, known),
        runtime=given.runtime,
        privileged=True if known is not None and known.privileged else None,
        cap_add=given.capabilities,
        security_opt=("seccomp=unconfined",) if given.seccomp == "Unconfined" else (),
        group_add=given.groups,
        ipc="host" if given.host_ipc else None,
        # /dev/shm is the host's where its IPC is.
        shm_size=None if given.host_ipc else given.shm_bytes,
        cpus=given.cpu,
        mem_limit=given.memory_bytes,
        healthcheck=None if variant.simulated else _healthcheck(variant.startup_seconds),
        stop_grace_period=_grace(plan),
    )


def _own_devices(seat: Seat) -> Mapping[str, str]:
    """By the engine's variable, or by one that the container runtime reads, or by a request."""
    known = seat.variant.host_devices
    if known is None or known.driver is not None:
        return {}
    if known.container_variable is not None:
        return {known.container_variable: numbers(seat)}
    return device_env(seat)


def _deploy(seat: Seat, known: HostDevices | None) -> dict[str, Any]:
    if known is None or known.driver is None:
        return {}
    request = Request(known.driver, tuple(map(str, seat.devices)))
    return {"resources": {"reservations": {"devices": [to_builtins(request)]}}}


def _paths(given: Container, known: HostDevices | None) -> tuple[str, ...]:
    more = known.paths if known is not None else ()
    return tuple(dict.fromkeys((*given.devices, *more)))


def _volumes(seat: Seat, place: Place) -> Iterator[Bind | Named]:
    if seat.variant.simulated:
        yield Bind(_config(seat), f"{ETC}/engine.json")
        return
    if place.cache.path is not None:
        made = {"create_host_path": True}
        yield Bind(escaped(place.cache.path), CACHE, read_only=False, bind=made)
    else:
        yield Named(VOLUME, CACHE)
    for path in place.container.mounts:
        yield Bind(escaped(path), escaped(path))


def _healthcheck(startup_seconds: int | None) -> Healthcheck:
    start = DEFAULT_STARTUP_SECONDS if startup_seconds is None else startup_seconds
    return Healthcheck(("CMD", "python3", "-c", ASK), f"{int(start)}s")


# --- the router ---


def _router(plan: Plan, certificates: Mapping[str, str]) -> Service:
    planned = plan.router
    place = (planned.place if planned is not None else None) or Place()
    return Service(
        image=place.image.pinned if place.image is not None else "",
        entrypoint=("llmd-router", "--config", f"{ETC}/router.yaml"),
        user=place.image.user if place.image is not None else None,
        environment=_variables(planned.env if planned is not None else {}),
        env_file=_env_files(place.secrets),
        ports=(f"{DATA}:{DATA}", f"127.0.0.1:{ADMIN}:{ADMIN}"),
        volumes=(
            Bind("./router.yaml", f"{ETC}/router.yaml"),
            Bind("./secrets/admin.key", f"{ETC}/admin.key"),
            *(
                Bind(escaped(path), f"{CERTIFICATES}/{name}")
                for name, path in sorted(certificates.items())
            ),
        ),
        cap_drop=("ALL",),
        security_opt=("no-new-privileges:true",),
        cpus=place.container.cpu,
        mem_limit=place.container.memory_bytes,
        stop_grace_period=_grace(plan),
    )
