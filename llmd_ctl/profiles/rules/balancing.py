"""Rules of vLLM on data-parallel ranks and several machines: who balances, which rank is this."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

SIZE, LOCAL = "--data-parallel-size", "--data-parallel-size-local"
RANK, START = "--data-parallel-rank", "--data-parallel-start-rank"
EXTERNAL, HYBRID = "--data-parallel-external-lb", "--data-parallel-hybrid-lb"
PORTS, NODES, NODE = "--data-parallel-multi-port-external-lb", "--nnodes", "--node-rank"
TOLERANT = "--enable-fault-tolerance"
AT = (EXTERNAL, HYBRID, PORTS, RANK, START)


def _external(line: Line) -> bool:
    return line.on_by(EXTERNAL) or line.says(RANK)


def _hybrid(line: Line) -> bool:
    said = line.on_by(HYBRID)
    return said or (line.says(START) and not line.on_by(PORTS))


def _nodes(line: Line) -> int:
    return number(line, NODES, 1)


def _world(line: Line) -> int:
    return line.tensor * line.pipeline * number(line, "--prefill-context-parallel-size", 1)


def _backend(line: Line) -> str:
    return str(line["--data-parallel-backend"] or "mp")


def _ports_fit(line: Line) -> bool:
    local = line.told(LOCAL)
    return (
        local > 1
        and line.data % local == 0
        and number(line, "--api-server-count", 1) == 1
        and number(line, START, line.told(NODE) * local) + local <= line.data
        and not line.says("--uds", "--grpc")
    )


RULES = (
    Rule(
        "V105",
        "One balancer spreads requests over ranks",
        require=lambda line: [_external(line), _hybrid(line), line.on_by(PORTS)].count(True) <= 1,
        message="requests are spread over ranks in several ways at once: by an external balancer,"
        " a hybrid one, or several ports",
        remedy="Keep one of --data-parallel-external-lb (or -rank), --data-parallel-hybrid-lb (or"
        " -start-rank) and --data-parallel-multi-port-external-lb.",
        at=AT,
        source="vLLM 0.32.0 entrypoints/cli/serve.py:99",
    ),
    Rule(
        "V106",
        "Ranks of one machine are among all ranks",
        require=lambda line: line.told(LOCAL) <= line.data,
        message="{--data-parallel-size-local} ranks here are more than all {data}",
        remedy="Lower --data-parallel-size-local, or raise --data-parallel-size.",
        at=(LOCAL, SIZE),
        source="vLLM 0.32.0 config/parallel.py:541",
    ),
    Rule(
        "V107",
        "An external balancer has several ranks",
        when=_external,
        require=lambda line: line.data > 1,
        message="a rank behind an external balancer is one of several, and there is one",
        remedy="Set --data-parallel-size to the ranks, or leave the rank out.",
        at=(EXTERNAL, RANK),
        source="vLLM 0.32.0 config/parallel.py:547",
    ),
    Rule(
        "V108",
        "Behind an external balancer a rank knows itself",
        when=lambda line: line.on_by(EXTERNAL) and not line.says(RANK) and _nodes(line) == 1,
        require=lambda _line: False,
        message="--data-parallel-external-lb is on, and no rank is said",
        remedy="Add --data-parallel-rank.",
        at=(EXTERNAL,),
        source="vLLM 0.32.0 engine/arg_utils.py:2427",
    ),
    Rule(
        "V109",
        "A rank is one of all ranks",
        when=lambda line: line.data > 1,
        require=lambda line: 0 <= line.told(RANK) < line.data,
        message="rank {--data-parallel-rank} is none of {data}",
        remedy="Count ranks from 0.",
        allowed=lambda line: (f"0 to {line.data - 1}",),
        at=(RANK, SIZE),
        source="vLLM 0.32.0 config/parallel.py:998",
    ),
    Rule(
        "V110",
        "Behind an external balancer a process is one rank",
        when=_external,
        require=lambda line: line.told(LOCAL) in (0, 1),
        message="behind an external balancer a process holds one rank, not"
        " {--data-parallel-size-local}",
        remedy="Leave --data-parallel-size-local out.",
        at=(LOCAL,),
        source="vLLM 0.32.0 engine/arg_utils.py:2435",
    ),
    Rule(
        "V111",
        "A hybrid balancer knows the ranks of its machine",
        when=lambda line: line.on_by(HYBRID) and not _external(line) and _nodes(line) == 1,
        require=lambda line: line.says(LOCAL),
        message="--data-parallel-hybrid-lb is on, and the ranks of this machine are not counted",
        remedy="Add --data-parallel-size-local.",
        at=(HYBRID,),
        source="vLLM 0.32.0 engine/arg_utils.py:2478",
    ),
    Rule(
        "V112",
        "Ranks with ports of their own are several, and evenly many on each machine",
        when=lambda line: line.on_by(PORTS),
        require=_ports_fit,
        message="--data-parallel-multi-port-external-lb wants two or more ranks on this"
        " machine that"
        " divide all ranks, one API server, and TCP",
        remedy="Set --data-parallel-size-local to a divisor of --data-parallel-size, 2 or more.",
        at=(PORTS,),
        source="vLLM 0.32.0 entrypoints/launchers/dp_supervisor.py:53",
    ),
    Rule(
        "V113",
        "Several machines divide the ranks",
        require=lambda line: line.data * _world(line) % max(1, _nodes(line)) == 0,
        message="{--nnodes} machines cannot share the devices of all ranks evenly",
        remedy="Take a number of machines that divides them.",
        at=(NODES,),
        source="vLLM 0.32.0 engine/arg_utils.py:2365",
    ),
    Rule(
        "V114",
        "A machine is one of all machines",
        when=lambda line: _nodes(line) > 1,
        require=lambda line: 0 <= line.told(NODE) < _nodes(line),
        message="machine {--node-rank} is none of {--nnodes}",
        remedy="Count machines from 0.",
        at=(NODE, NODES),
        source="vLLM 0.32.0 engine/arg_utils.py:2373",
    ),
    Rule(
        "V115",
        "Several machines are joined by processes, not by Ray",
        when=lambda line: _nodes(line) > 1,
        require=lambda line: _backend(line) == "mp" and _executor(line) != "ray",
        message="--nnodes is for multiprocessing, and Ray finds machines by itself",
        remedy="Leave --nnodes out, or Ray.",
        at=("--data-parallel-backend", "--distributed-executor-backend", NODES),
        source="vLLM 0.32.0 engine/arg_utils.py:2349; config/parallel.py:1087",
    ),
    Rule(
        "V116",
        "Data-parallel ranks are started by one of two",
        require=lambda line: _backend(line) in ("mp", "ray"),
        message="--data-parallel-backend {--data-parallel-backend} starts no ranks",
        remedy="Leave it out, or take one that does.",
        allowed=lambda _line: ("mp", "ray"),
        at=("--data-parallel-backend",),
        source="vLLM 0.32.0 engine/arg_utils.py:2506",
    ),
    Rule(
        "V117",
        "Faults are tolerated behind an external balancer",
        when=lambda line: line.on_by(TOLERANT) or line.says("--fault-tolerance-config"),
        require=lambda line: _external(line) and number(line, "--api-server-count", 1) <= 1,
        message="fault tolerance needs an external balancer, and one API server",
        remedy="Add --data-parallel-rank, or leave fault tolerance out.",
        at=(TOLERANT, "--fault-tolerance-config"),
        source="vLLM 0.32.0 engine/arg_utils.py:2409; config/parallel.py:526",
    ),
    Rule(
        "V118",
        "An engine without API servers starts none",
        when=lambda line: line.on_by("--headless"),
        require=lambda line: line.told("--api-server-count") == 0 and not line.on_by(HYBRID),
        message="--headless starts no API servers, which others of its words ask for",
        remedy="Leave --api-server-count and --data-parallel-hybrid-lb out, or --headless.",
        at=("--api-server-count", HYBRID, "--headless"),
        source="vLLM 0.32.0 entrypoints/cli/serve.py:69",
    ),
)


def _executor(line: Line) -> str:
    return str(line["--distributed-executor-backend"])
