"""Target systemd: a folder for each host, with what goes below its `/`.

Each replica is a unit, the router is one on the first host of its target, and a target unit holds
those of a host together. Engines and router are programs that the host has. Found by `targets`.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from llmd_ctl.plan import CONFIG, HOST, PORT, PYTHON, Plan
from llmd_ctl.plan.dealing import HERE, Seat
from llmd_ctl.plan.place import Container, HostDevices, Place, PlannedTarget, Secret
from llmd_ctl.render.addresses import (
    device_env,
    engine_text,
    is_router_here,
    listen_on,
    router_yaml,
    seats,
)
from llmd_ctl.render.certificates import moved
from llmd_ctl.render.file import RenderedFile, header
from llmd_ctl.render.router import Listen
from llmd_ctl.render.unit import Section, Unit, command_line, word, words

USER = "llmd-ctl"
ETC, STATE, CACHE = "/etc/llmd-ctl", "/var/lib/llmd-ctl", "/var/cache/llmd-ctl"
UNITS = "etc/systemd/system"
NO_HOST = "units"
DATA, ADMIN = "0.0.0.0:8000", "127.0.0.1:9090"
SIMULATED = ("llmd-engine", "--config")
DRAIN_MS, MARGIN_SECONDS = 30_000, 15  # the router's own default; what a process takes to end
HUGE_PAGE = 2 << 20
Settings = Sequence[tuple[str, str]]
# What every unit may do without. No ProtectClock: it closes all devices but those that are allowed.
CLOSED: Settings = (
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "read-only"),
    ("PrivateTmp", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("LockPersonality", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("SystemCallArchitectures", "native"),
)
# What container runtimes refuse by default, in systemd's groups, and as they do: nobody is killed.
RUNTIME_DEFAULT: Settings = (
    (
        "SystemCallFilter",
        "~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap",
    ),
    ("SystemCallErrorNumber", "EPERM"),
)
# Drivers pin memory of the host by the GiB; systemd's own limit is 8 MiB.
PINS: Settings = (("LimitMEMLOCK", "infinity"),)
# The pause between two starts grows to a minute; before systemd 254 it stays what it is at first.
RESTART: Settings = (
    ("Restart", "always"),
    ("RestartSec", "5"),
    ("RestartSteps", "4"),
    ("RestartMaxDelaySec", "60"),
)
HOW = """\
# To install: give the programs that the units start, copy what is in this folder below /, then
#   systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload
{pages}#   systemctl enable --now {target}
# After a change: copy them again, daemon-reload, and systemctl restart what has changed.
# Secrets are files of variables in {etc}/secrets/, one a secret, readable for root alone.
"""


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """The folders of all hosts of a target."""
    hosts = target.hosts or (HERE,)
    here: dict[str, list[Seat]] = {host: [] for host in hosts}
    for seat in seats(plan, target):
        here[seat.host].append(seat)
    files = [
        RenderedFile(f"{host or NO_HOST}/{file.path}", file.text)
        for number, host in enumerate(hosts)
        for file in _host(
            plan,
            target,
            here[host],
            router=number == 0 and is_router_here(plan, target),
        )
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _host(
    plan: Plan, target: PlannedTarget, here: Sequence[Seat], *, router: bool
) -> Iterator[RenderedFile]:
    """The files of one host, from its /."""
    top = header(plan, target.name)
    units = [_unit(plan, seat) for seat in here]
    for seat, unit in zip(here, units, strict=True):
        host = listen_on(plan, target, seat)
        yield RenderedFile(f"{UNITS}/{unit}", _engine(plan, seat, host).text(top))
        if seat.variant.simulated:
            yield RenderedFile(_config(plan, seat)[1:], engine_text(seat, host, seat.port))
    if router:
        yield from _router(plan, target, units, top)
        units.append(f"llmd-{plan.fleet}-router.service")
    pages = sum((place.container.hugepages_bytes or 0) // HUGE_PAGE for place in _places(here))
    how = _how(plan, top, pages=pages > 0)
    yield RenderedFile(f"{UNITS}/{_target(plan)}", _all(plan, units).text(how))
    yield RenderedFile("etc/sysusers.d/llmd-ctl.conf", f"{top}u {USER} - llmd-ctl {STATE}\n")
    folders = sorted({place.cache.path for place in _places(here) if place.cache.path is not None})
    if folders:
        lines = (f"d {word(path)} :0750 :{USER} :{USER} -\n" for path in folders)
        yield RenderedFile(f"etc/tmpfiles.d/llmd-{plan.fleet}.conf", top + "".join(lines))
    if pages:
        yield RenderedFile(_pages_file(plan), f"{top}vm.nr_hugepages = {pages}\n")


def _places(here: Iterable[Seat]) -> list[Place]:
    return [seat.variant.place for seat in here if seat.variant.place is not None]


def _how(plan: Plan, top: str, *, pages: bool) -> str:
    """What to do with the files. Huge pages are set aside before the engines ask for them."""
    apply = f"#   sysctl --load=/{_pages_file(plan)}\n" if pages else ""
    return top + HOW.format(target=_target(plan), etc=ETC, pages=apply)


def _pages_file(plan: Plan) -> str:
    return f"etc/sysctl.d/llmd-{plan.fleet}.conf"


def _target(plan: Plan) -> str:
    return f"llmd-{plan.fleet}.target"


def _unit(plan: Plan, seat: Seat) -> str:
    return f"llmd-{plan.fleet}-{seat.name}.service"


def _config(plan: Plan, seat: Seat) -> str:
    return f"{ETC}/{plan.fleet}/{seat.name}.json"


def _all(plan: Plan, units: Sequence[str]) -> Unit:
    unit = (("Description", f"fleet {plan.fleet}"), *(("Wants", name) for name in units))
    return Unit((Section("Unit", unit), Section("Install", (("WantedBy", "multi-user.target"),))))


# --- engines ---


def _engine(plan: Plan, seat: Seat, host: str) -> Unit:
    variant = seat.variant
    place = variant.place or Place()
    open_places = {
        HOST: host, PORT: str(seat.port), PYTHON: "python3", CONFIG: _config(plan, seat),
    }  # fmt: skip
    argv = [open_places.get(each, each) for each in variant.command]
    if variant.simulated:
        argv = [*SIMULATED, _config(plan, seat)]
    kept = place.cache.path or CACHE
    caches = {name: f"{kept}/{folder}" for name, folder in place.cache.variables.items()}
    env = {**caches, **device_env(seat), **variant.env}
    service = (
        ("Type", "exec"),
        ("ExecStart", command_line(argv)),
        *_environment(env, place.secrets),
        ("WorkingDirectory", STATE),
        ("StateDirectory", "llmd-ctl"),
        ("CacheDirectory", "llmd-ctl"),
        *((("ReadWritePaths", word(kept)),) if place.cache.path is not None else ()),
        *_bounds(place.container),
        *PINS,
        ("KillMode", "mixed"),
        ("KillSignal", "SIGTERM"),
        ("TimeoutStopSec", str(_drain_seconds(plan) + MARGIN_SECONDS)),
        *RESTART,
        *_who(place.container),
        *_devices(variant.host_devices),
        *CLOSED,
    )
    title = f"{seat.model.name} on {variant.accelerator}, replica {seat.index} of {variant.name}"
    return _service(plan, title, service)


def _service(plan: Plan, title: str, service: Settings, after: Sequence[str] = ()) -> Unit:
    unit = (
        ("Description", f"fleet {plan.fleet}: {title}"),
        ("Wants", "network-online.target"),
        ("After", " ".join(("network-online.target", *after))),
        ("PartOf", _target(plan)),
        ("StartLimitIntervalSec", "0"),
    )
    return Unit((Section("Unit", unit), Section("Service", tuple(service))))


def _environment(env: Mapping[str, str], secrets: Iterable[Secret]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(env.items()):
        yield "Environment", word(f"{name}={value}")
    for secret in secrets:
        yield "EnvironmentFile", f"{ETC}/secrets/{secret.name}"


def _bounds(given: Container) -> Iterator[tuple[str, str]]:
    if given.cpu is not None:
        yield "CPUQuota", f"{given.cpu * 100:.10g}%"
    if given.memory_bytes is not None:
        yield "MemoryMax", str(given.memory_bytes)


def _who(given: Container) -> Iterator[tuple[str, str]]:
    """The user, and what it may do that a user may not."""
    yield "User", USER
    if given.groups:
        yield "SupplementaryGroups", words(given.groups)
    allowed = words(f"CAP_{name}" for name in given.capabilities)
    yield "CapabilityBoundingSet", allowed
    yield "AmbientCapabilities", allowed
    if not given.host_ipc:
        yield "PrivateIPC", "yes"
    if given.seccomp == "RuntimeDefault":
        yield from RUNTIME_DEFAULT


def _devices(known: HostDevices | None) -> Iterator[tuple[str, str]]:
    """What of /dev a unit may open; all of it where nobody knows what its engine needs."""
    if known is not None and not known.classes:
        return
    yield "DevicePolicy", "closed"
    for name in known.classes if known is not None else ():
        yield "DeviceAllow", f"char-{name} rw"


# --- the router ---


def _router(
    plan: Plan, target: PlannedTarget, engines: Sequence[str], top: str
) -> Iterator[RenderedFile]:
    unit = f"llmd-{plan.fleet}-router.service"
    config, state = f"{ETC}/{plan.fleet}/router.yaml", f"{STATE}/{plan.fleet}"
    there, files = moved(plan, f"/run/credentials/{unit}")
    key = f"{state}/admin.key"
    yield RenderedFile(config[1:], router_yaml(there, target, Listen(DATA, ADMIN), key))
    planned = plan.router
    place = (planned.place if planned is not None else None) or Place()
    container = replace(place.container, host_ipc=False, seccomp="RuntimeDefault")
    make = f"umask 077; [ -s {key} ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >{key}"
    service = (
        ("Type", "exec"),
        ("ExecStartPre", command_line(("/bin/sh", "-c", make))),
        ("ExecStart", command_line(("llmd-router", "--config", config))),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        *_environment(planned.env if planned is not None else {}, place.secrets),
        *(("LoadCredential", word(f"{name}:{path}")) for name, path in sorted(files.items())),
        ("StateDirectory", f"llmd-ctl/{plan.fleet}"),
        *_bounds(container),
        ("LimitNOFILE", "1048576"),
        ("KillSignal", "SIGTERM"),
        ("TimeoutStopSec", str(_drain_seconds(plan) + MARGIN_SECONDS)),
        *RESTART,
        *_who(container),
        *_devices(None),
        *CLOSED,
    )
    # Ordered after the engines, it is stopped before them.
    text = _service(plan, "the router", service, engines).text(top)
    yield RenderedFile(f"{UNITS}/{unit}", text)


def _drain_seconds(plan: Plan) -> int:
    said = plan.resilience.limits.drain_ms
    return -(-(DRAIN_MS if said is None else said) // 1000)
