"""Real engines behind two routers, under load: one is killed, all of them are restarted in turn.

A request is lost when it got no 2xx although a healthy endpoint remained. Here one always remains,
so none may be lost; a stream may break only where an engine was killed under it, and then says so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.router.clients import Balance, Load
from tests.e2e.router.engines import Engine, llamacpp_command, vllm_command
from tests.e2e.router.site import Site, wait_until

STREAMS, WHOLE = 6, 2
REAL = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]
GAUGES = ["inflight_requests", "inflight_tokens", "open_requests"]

# Requests that must end before the next thing happens: some of each client, on any machine.
CARRY = {"vllm": 10, "llamacpp": 16}
# Of a stream: so many that most have begun at any moment, and one that has cannot be mended.
# Answers in one piece have a quarter of it.
TOKENS = {"vllm": 60, "llamacpp": 500}


@contextmanager
def running(site: Site) -> Iterator[Site]:
    """Start all engines at once, then the routers; everything is ended at the end."""
    try:
        for engine in site.engines:
            engine.start()
        for engine in site.engines:
            engine.wait_healthy()
        site.tell()
        for index in range(len(site.routers)):
            site.start_router(index)
        for engine in site.engines:
            site.bring_up(engine)
        yield site
    finally:
        site.close()


@pytest.fixture(
    params=[
        pytest.param(("llamacpp", True), id="llamacpp", marks=pytest.mark.slow),
        pytest.param(
            ("llamacpp", False), id="llamacpp-nobody-tells-of-deaths", marks=pytest.mark.slow
        ),
        pytest.param(("vllm", False), id="vllm-nobody-tells-of-deaths", marks=REAL),
    ]
)
def setting(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """Which engine, and whether the routers see by themselves that its process died."""
    kind: tuple[str, bool] = request.param
    return kind


@pytest.fixture
def site(
    setting: tuple[str, bool],
    request: pytest.FixtureRequest,
    tiny_model: Path,
    tmp_path: Path,
    free_ports: Callable[[int], list[int]],
) -> Iterator[Site]:
    """Two ready engines behind two ready routers."""
    kind, watched = setting
    if kind == "vllm":
        command = vllm_command(request.getfixturevalue("vllm_executable"), tiny_model)
    else:
        command = llamacpp_command(request.getfixturevalue("llamacpp_python"), tiny_model)
    ports = free_ports(6)
    engines = [
        Engine(f"engine-{index}", ports[index], command, tmp_path / f"engine-{index}.log")
        for index in range(2)
    ]
    with running(Site(tmp_path, engines, ports[2:], watched=watched)) as made:
        yield made


def test_nothing_is_lost(site: Site, setting: tuple[str, bool], tmp_path: Path) -> None:
    kind, watched = setting
    count = CARRY[kind]
    balance = Balance(site.data, site.admin)
    with Load(balance, tmp_path / "load.jsonl", STREAMS, WHOLE, TOKENS[kind]) as load:
        load.carry_on("quiet", count)
        load.phase = "killed"
        killed = kill_under_load(site, WHOLE + 1)
        load.carry_on("killed", count)
        retried = site.metric("llmd_router_retries_total")
        if watched:
            site.states[killed.name] = "starting"
        killed.start()  # while it starts, the other carries all
        codes = []
        for router in range(len(site.routers)):
            load.phase = "routers"
            codes.append(site.stop_router(router))
            site.start_router(router)
            load.carry_on("routers", count)
        load.phase = "back"
        site.bring_up(killed)
        for engine in reversed(site.engines):
            load.phase = "drained"
            restart_drained(site, engine)
            load.carry_on("drained", count)
        load.carry_on("end", count)
    lines = load.lines()
    failed = [line for line in lines if line.ended != "done"]
    broken = [line for line in failed if line.ended == "error-event"]
    assert [line for line in failed if line not in broken] == [], "lost, or ended silently"
    assert {line.phase for line in broken} <= {"killed"}, "broken by something else"
    # A stream that had not begun is mended as well: which it was is chance.
    assert broken or retried > 0, "nothing was there when the engine was killed"
    assert all(line.stream for line in broken)
    assert codes == [0, 0], "a router cut requests"
    assert {line.router for line in lines if line.phase == "end"} == {0, 1}
    for name in GAUGES:
        assert site.metric(f"llmd_router_{name}") == 0, name


def kill_under_load(site: Site, least: int) -> Engine:
    """SIGKILL the first engine that has so many requests: more than come without a stream.

    Which one that is is the routers' choice: where one learns faster, it gets more.
    """
    busy: list[Engine] = []

    def found() -> bool:
        busy.extend(engine for engine in site.engines if site.inflight(engine) >= least)
        return bool(busy)

    wait_until(f"{least} requests at one engine", found)
    busy[0].kill()
    return busy[0]


def restart_drained(site: Site, engine: Engine) -> None:
    """Drain an engine, stop it, start it, and give it requests again."""
    site.drain(engine)
    engine.stop()
    site.set_state(engine, "starting")
    engine.start()
    site.bring_up(engine)
