"""A machine in memory and in virtual time, on which apply and controllers really run.

Each controller is a thread that holds the baton only between two of its sleeps, so every run is the
same. Any actor can be killed after its n-th effect: from then on its calls do nothing but raise
`Killed`, and what it held is let go, as the system does for a real process.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from llmd_ctl.apply.machine import (
    MARK_PORT,
    MARK_REPLICA,
    MARK_STATE,
    CannotSpawn,
    Health,
    Launch,
    Listener,
    Machine,
    Marked,
)
from llmd_ctl.apply.records import ProcessId
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.controller.child import Limits, Yard
from llmd_ctl.controller.run import Signals, supervise
from llmd_ctl.errors import Locked
from llmd_ctl.router.answer import Answer, EndpointStatus, PoolStatus, RouterStatus

ROOT = Path("/state")
PYTHON = "python"
BOOT_SECONDS = 0.3


class Killed(BaseException):
    """The actor was killed: nothing it does has an effect any more."""


@dataclass
class Proc:
    """A process of the world."""

    id: ProcessId
    env: dict[str, str]
    born: float
    port: int
    alive: bool = True
    exit: str = ""
    deaf: bool = False
    leader: bool = True
    hidden: bool = False  # its environment was overwritten: no marker to be found
    veiled: bool = False  # another user's: it listens, but can't be looked into
    parent: int = 0
    died: float = 0.0
    signals: list[int] = field(default_factory=list)

    @property
    def mark(self) -> str:
        return self.env.get(MARK_REPLICA, "")


class Actor:
    """Somebody who uses the machine: a command or a controller."""

    def __init__(self, world: World, pid: int, kill_after: int | None = None) -> None:
        self.world = world
        self.pid = pid
        self.kill_after = kill_after
        self.effects: list[str] = []
        self.dead = False

    def effect(self, name: str, act: Callable[[], Any]) -> Any:
        """One effect: it happens, and the actor may be killed right after it."""
        self.check()
        if self.kill_after == 0:
            self.die()
        result = act()
        self.effects.append(name)
        if self.kill_after is not None and len(self.effects) >= self.kill_after:
            self.die()
        return result

    def check(self) -> None:
        if self.dead:
            raise Killed

    def die(self) -> None:
        self.dead = True
        self.world.bury(self.pid, "killed by SIGKILL")
        raise Killed


class World:
    """Files, processes, engines, router and time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.files: dict[Path, bytes] = {}
        self.folders: set[Path] = {ROOT}
        self.locks: dict[Path, int] = {}
        self.procs: dict[int, Proc] = {}
        self.runners: dict[int, Runner] = {}
        self.inflight: dict[str, int] = {}
        self.broken: dict[str, str] = {}  # variant to how its engines end at once
        self.unbootable: set[str] = set()  # variants whose engines never answer
        self.boot_seconds: dict[str, float] = {}  # by variant, what its engines take to listen
        self.misnamed: set[str] = set()  # variants whose engines serve another model
        self.looks = 0  # how often somebody looked for strangers on a replica's port
        self.bounds: dict[Path, int] = {}  # logs that were looked at, and their limits
        self.unspawnable: set[str] = set()
        self.uninstalled: set[str] = set()  # programs that are nowhere on the PATH
        self.overlaps: list[str] = []
        self.controller_kills: list[int | None] = []  # for the next controllers, in order
        self.limits = Limits()
        self.router_file_delay = 0.25
        self.router_silent = False
        self.router_complaint: str | None = None  # why it keeps its old configuration
        self.asked: list[tuple[str, str | None]] = []  # on the data port: URL and certificate
        self.listening: dict[int, Any] = {}  # by pid, how a router listens since its start
        self._router_view: tuple[float, bytes, bytes] | None = None
        self._next_pid = 100

    # --- actors ---

    def actor(self, kill_after: int | None = None) -> Actor:
        pid = self._new_pid()
        identity = ProcessId(pid, pid * 7, ("llmd-ctl", "apply"))
        self.procs[pid] = Proc(identity, {}, self.now, 0)
        return Actor(self, pid, kill_after)

    def machine(self, actor: Actor) -> Machine:
        clock = WorldClock(self, actor)
        return Machine(
            WorldFiles(self, actor), WorldProcesses(self, actor), WorldNetwork(self), clock
        )

    def folder(self, machine: Machine) -> StateFolder:
        return StateFolder("prod", ROOT / "prod", machine.files)

    def _new_pid(self) -> int:
        self._next_pid += 1
        return self._next_pid

    # --- processes ---

    def start(self, launch: Launch, parent: int) -> ProcessId:
        pid = self._new_pid()
        identity = ProcessId(pid, pid * 7, tuple(launch.argv))
        env = dict(launch.env)
        proc = Proc(identity, env, self.now, int(env.get(MARK_PORT) or 0), parent=parent)
        twins = [p for p in self.living() if p.mark and _seat(p.mark) == _seat(proc.mark)]
        if twins:
            self.overlaps.append(f"{proc.mark} beside {[p.mark for p in twins]}")
        self.procs[pid] = proc
        if "llmd_ctl.controller" in launch.argv:
            kill = self.controller_kills.pop(0) if self.controller_kills else None
            self.runners[pid] = Runner(self, Actor(self, pid, kill))
        for variant, end in self.broken.items():
            if f"-{variant}-" in proc.mark:
                self.bury(pid, end)
        return identity

    def stranger(self, port: int) -> Proc:
        pid = self._new_pid()
        argv = ("python3", "-m", "http.server", str(port))
        proc = Proc(ProcessId(pid, pid * 7, argv), {}, self.now - 10, port)
        self.procs[pid] = proc
        return proc

    def worker(self, engine: Proc) -> Proc:
        """A process that the engine started itself: it has the marker, and no port."""
        pid = self._new_pid()
        identity = ProcessId(pid, pid * 7, ("worker",))
        self.procs[pid] = Proc(identity, dict(engine.env), self.now, 0, leader=False)
        return self.procs[pid]

    def bury(self, pid: int, how: str) -> None:
        proc = self.procs[pid]
        proc.alive = False
        proc.died = self.now
        proc.exit = how
        for path in [path for path, owner in self.locks.items() if owner == pid]:
            del self.locks[path]

    def living(self) -> list[Proc]:
        return [proc for proc in self.procs.values() if proc.alive]

    def named(self, mark: str) -> list[Proc]:
        return [proc for proc in self.living() if proc.mark == mark]

    def ours(self) -> dict[str, int]:
        """Pid by name of everything alive that carries the marker."""
        return {proc.mark: proc.id.pid for proc in self.living() if proc.mark}

    def controllers(self) -> list[Proc]:
        return [proc for proc in self.living() if "llmd_ctl.controller" in proc.id.cmdline]

    def booted(self, proc: Proc) -> bool:
        slow = any(f"-{variant}-" in proc.mark for variant in self.unbootable)
        times = [t for variant, t in self.boot_seconds.items() if f"-{variant}-" in proc.mark]
        return proc.alive and not slow and self.now - proc.born >= max(times, default=BOOT_SECONDS)

    def listener(self, port: int) -> Proc | None:
        return next(iter(self.listeners(port)), None)

    def listeners(self, port: int) -> list[Proc]:
        """All that listen there: as with SO_REUSEPORT, nobody keeps anybody out."""
        found = []
        for proc in self.living():
            ports = self.router_ports() if proc.mark == "@router" else (proc.port,)
            if port and port in ports and self.booted(proc):
                found.append(proc)
        return found

    def router_ports(self) -> tuple[int, ...]:
        content = self.files.get(ROOT / "prod" / "router.yaml")
        if content is None:
            return ()
        listen = _yaml(content)["listen"]
        return tuple(int(listen[port].rpartition(":")[2]) for port in ("data", "admin"))

    def signal(self, proc: Proc, number: int) -> None:
        proc.signals.append(number)
        runner = self.runners.get(proc.id.pid)
        if runner is not None and number != signal.SIGKILL:
            runner.deliver(number)
        elif number == signal.SIGKILL:
            self.bury(proc.id.pid, "killed by SIGKILL")
        elif number == signal.SIGTERM and not proc.deaf:
            self.bury(proc.id.pid, "exited with code 0")

    # --- the router, as far as the control plane sees it ---

    def router_status(self) -> RouterStatus | None:
        answering = [proc for proc in self.named("@router") if self.booted(proc)]
        if self.router_silent or not answering:
            return None
        config, replicas = self._router_files()
        listen = _yaml(config)["listen"]
        moved = self.listening.setdefault(answering[0].id.pid, listen) != listen
        pools = {}
        for model in _yaml(config)["models"]:
            endpoints = {}
            for entry in json.loads(replicas)["replicas"]:
                if entry["model"] == model["name"]:
                    name = entry["name"]
                    state = entry["state"]
                    endpoints[name] = EndpointStatus(name, state, self.inflight.get(name, 0))
            pools[model["name"]] = PoolStatus(model["name"], model["scheduler"], endpoints)
        complaint = self.router_complaint or ("listen needs a restart" if moved else None)
        return RouterStatus(
            ready=True,
            config_error=complaint,
            pools=pools,
            needs_restart=moved and self.router_complaint is None,
        )

    def _router_files(self) -> tuple[bytes, bytes]:
        """The files as the router read them last: it looks only every so often."""
        if self._router_view is None or self.now - self._router_view[0] >= self.router_file_delay:
            folder = ROOT / "prod"
            config = self.files[folder / "router.yaml"]
            replicas = self.files.get(folder / "replicas.json", b'{"replicas": []}')
            self._router_view = (self.now, config, replicas)
        return self._router_view[1:]

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Let time pass; controllers run whenever their sleep is over."""
        end = self.now + seconds
        while True:
            due = [r for r in self.runners.values() if r.wake_at <= end and r.can_run()]
            if not due:
                break
            runner = min(due, key=lambda r: (r.wake_at, r.actor.pid))
            self.now = max(self.now, runner.wake_at)
            runner.turn()
        self.now = end


class Runner:
    """A controller process: a thread that runs only when it is given the baton."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.actor = actor
        self.wake_at = world.now + 0.05  # what a process takes to start
        self.signals = Signals()
        self.failure: BaseException | None = None
        self._world = world
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._ended = False

    def can_run(self) -> bool:
        return not self._ended and not self.actor.dead and self._world.procs[self.actor.pid].alive

    def deliver(self, number: int) -> None:
        if number == signal.SIGTERM:
            self.signals.stop = True
        elif number == signal.SIGHUP:
            self.signals.retry = True

    def turn(self) -> None:
        """Run until the next sleep or the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()
        if self.failure is not None:
            raise self.failure

    def sleep(self, seconds: float) -> None:
        """Called on the controller's thread: give the baton back."""
        self.wake_at = self._world.now + seconds
        self._back.release()
        self._go.acquire()
        if not self._world.procs[self.actor.pid].alive:
            raise Killed

    def _main(self) -> None:
        code = "exited with code 0"
        try:
            machine = self._world.machine(self.actor)
            yard = Yard(self._world.folder(machine), machine, self._world.limits)
            supervise(yard, PYTHON, self.signals)
        except Locked:
            code = "exited with code 75"
        except Killed:
            code = ""
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self.failure = error
        self._ended = True
        if code:
            self._world.bury(self.actor.pid, code)
        self._back.release()


@cache
def _yaml(content: bytes) -> Any:
    return yaml.safe_load(content)


def _seat(mark: str) -> str:
    return mark.rpartition("-")[0] or mark


class WorldClock:
    """`Clock` in virtual time."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor
        self.on_sleep: Callable[[], None] | None = None

    def monotonic(self) -> float:
        self._actor.check()
        return self._world.now

    def wall(self) -> float:
        return self._world.now + 1_800_000_000.0

    def sleep(self, seconds: float) -> None:
        self._actor.check()
        runner = self._world.runners.get(self._actor.pid)
        if runner is not None:
            runner.sleep(seconds)
            return
        self._world.advance(seconds)
        if self.on_sleep is not None:
            self.on_sleep()


class WorldLock:
    """`Lock` of an actor."""

    def __init__(self, actor: Actor, path: Path) -> None:
        self._actor = actor
        self._path = path

    def release(self) -> None:
        self._actor.effect("release", lambda: self._actor.world.locks.pop(self._path, None))


class WorldFiles:
    """`FilePort` in memory."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    def read(self, path: Path) -> bytes | None:
        self._actor.check()
        return self._world.files.get(path)

    def write_atomic(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        assert path.parent in self._world.folders, f"no folder for {path}"
        self._actor.effect(f"write {path.name}", lambda: self._put(path, content))

    def _put(self, path: Path, content: bytes) -> None:
        self._world.files[path] = content

    def remove(self, path: Path) -> None:
        self._actor.effect(f"remove {path.name}", lambda: self._world.files.pop(path, None))

    def list(self, folder: Path) -> Sequence[str]:
        self._actor.check()
        known = [*self._world.files, *self._world.folders]
        inside = [path.relative_to(folder) for path in known if folder in path.parents]
        return sorted({path.parts[0] for path in inside})

    def make_folder(self, folder: Path) -> None:
        if folder not in self._world.folders:
            self._actor.effect("folder", lambda: self._world.folders.add(folder))

    def bound(self, path: Path, max_bytes: int) -> None:
        self._actor.check()
        self._world.bounds[path] = max_bytes

    def prune(self, folder: Path, names: Collection[str], newest: int) -> None:
        self._actor.check()
        for name in list(names)[: max(0, len(names) - newest)]:
            self._world.files.pop(folder / name, None)

    def try_lock(self, path: Path, holder: bytes) -> WorldLock | None:
        self._actor.check()
        if path in self._world.locks:
            return None
        self._world.files[path] = holder
        self._actor.effect("lock", lambda: self._world.locks.update({path: self._actor.pid}))
        return WorldLock(self._actor, path)


class WorldProcesses:
    """`ProcessPort` in the world."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    def can_start(self, program: str, env: Mapping[str, str]) -> bool:
        return program not in self._world.uninstalled

    def spawn(self, launch: Launch) -> ProcessId:
        mark = launch.env.get(MARK_REPLICA, "")
        if any(f"-{variant}-" in mark for variant in self._world.unspawnable):
            raise CannotSpawn(f"`{launch.argv[0]}` is not an executable file on this machine")
        started: ProcessId = self._actor.effect(
            f"spawn {mark}", lambda: self._world.start(launch, self._actor.pid)
        )
        return started

    def me(self) -> ProcessId:
        return self._world.procs[self._actor.pid].id

    def ended(self, process: ProcessId, mark: str | None) -> str | None:
        self._actor.check()
        proc = self._world.procs.get(process.pid)
        if proc is None or proc.id.start_time != process.start_time:
            return "gone"
        if proc.id.cmdline != process.cmdline and (proc.hidden or proc.mark != mark):
            return "gone"
        if proc.alive:
            return None
        return proc.exit if proc.parent == self._actor.pid else "gone"

    def signal(self, process: ProcessId, mark: str | None, number: int) -> None:
        if self.ended(process, mark) is None:
            proc = self._world.procs[process.pid]
            self._actor.effect(
                f"signal {number} {proc.mark}", lambda: self._world.signal(proc, number)
            )

    def marked(self, state: Path) -> Sequence[Marked]:
        self._actor.check()
        return [
            Marked(proc.id, proc.mark, proc.port, proc.leader)
            for proc in self._world.living()
            if proc.mark and proc.env.get(MARK_STATE) == str(state) and not proc.hidden
        ]

    def listener(self, port: int) -> Listener | None:
        self._actor.check()
        proc = self._world.listener(port)
        return _seen(proc) if proc else None

    def intruder(self, port: int, process: ProcessId, state: Path, mark: str) -> Listener | None:
        self._actor.check()
        self._world.looks += 1
        for proc in self._world.listeners(port):
            marked = proc.mark == mark and proc.env.get(MARK_STATE) == str(state)
            if proc.id != process and not marked:
                return _seen(proc)
        return None


def _seen(proc: Proc) -> Listener:
    if proc.veiled:
        return Listener(None, "a process of another user")
    return Listener(proc.id.pid, " ".join(proc.id.cmdline))


class WorldNetwork:
    """`NetworkPort` to the world's engines and router."""

    def __init__(self, world: World) -> None:
        self._world = world

    def engine(self, port: int, model: str) -> Health:
        proc = self._world.listener(port)
        if proc is None:
            return Health(ok=False, reason="does not answer yet")
        wrong = any(f"-{variant}-" in proc.mark for variant in self._world.misnamed)
        if wrong or not proc.mark.startswith(f"{model}-"):
            return Health(ok=False, reason=f"serves another model, not {model}", misnamed=True)
        return Health(ok=True, reason="")

    def router_status(self, admin_url: str) -> RouterStatus | None:
        return self._world.router_status()

    def probe(self, admin_url: str, key: str, model: str, endpoint: str, seconds: float) -> Answer:
        status = self._world.router_status()
        seen = status.endpoint(model, endpoint) if status else None
        if seen is None or not key or seen.state != "ready" or not self._world.named(endpoint):
            return Answer(ok=False, reason="HTTP 502: no such endpoint")
        return Answer(ok=True, reason="", latency_ms=1.0, simulated=True)

    def shake_hands(self, url: str, certificate: str) -> Answer:
        self._world.asked.append((url, certificate))
        return Answer(ok=True, reason="")

    def complete(self, url: str, model: str, certificate: str | None, seconds: float) -> Answer:
        self._world.asked.append((url, certificate))
        status = self._world.router_status()
        pool = status.pools.get(model) if status else None
        if pool and any(e.state == "ready" for e in pool.endpoints.values()):
            return Answer(ok=True, reason="", latency_ms=1.0, simulated=True)
        return Answer(ok=False, reason="HTTP 503: no endpoint")
