"""Recomputes the demo's numbers from the logs it kept: `python recompute.py DIR`.

Shares no code with llmd-ctl, on purpose: the logs go into an SQLite database and SQL does the
counting and the joining. Prints the list under `runs` of the demo's JSON; a test compares the two.
"""

import json
import math
import sqlite3
import sys
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE sent (id TEXT PRIMARY KEY, stream INT, ended TEXT, start INT, first INT);
CREATE TABLE chunk (id TEXT, number INT, at INT);
CREATE TABLE served (id TEXT, endpoint TEXT, finish TEXT, prompt INT, cached INT, completion INT);
CREATE TABLE endpoint (name TEXT PRIMARY KEY, variant TEXT);
CREATE TABLE variant (number INT, name TEXT, accelerator TEXT, capacity REAL);
CREATE VIEW done AS
  SELECT served.*, endpoint.variant FROM served
  JOIN sent USING (id) JOIN endpoint ON endpoint.name = served.endpoint
  WHERE finish IN ('stop', 'length');
"""


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Read a log of one JSON document a line."""
    return [json.loads(text) for text in file.read_text("utf-8").splitlines() if text]


def fill(db: sqlite3.Connection, folder: Path) -> None:
    """Read a run's logs."""
    for x in lines_of(folder / "load.jsonl"):
        sent = (x["requestId"], x["stream"], x["ended"], x["startUs"], x["firstTokenUs"])
        db.execute("INSERT INTO sent VALUES (?,?,?,?,?)", sent)
        pairs = [(x["requestId"], n, at) for n, at in enumerate(x["chunkUs"])]
        db.executemany("INSERT INTO chunk VALUES (?,?,?)", pairs)
    for file in sorted((folder / "access").glob("*.jsonl")):
        for x in lines_of(file):
            counts = (x["promptTokens"], x["cachedTokens"], x["completionTokens"])
            served = (x["requestId"], file.stem, x["finish"], *counts)
            db.execute("INSERT INTO served VALUES (?,?,?,?,?,?)", served)
    for name, variant in json.loads((folder / "endpoints.json").read_text("utf-8")).items():
        db.execute("INSERT INTO endpoint VALUES (?,?)", (name, variant))
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    for number, variant in enumerate(plan["models"][0]["variants"]):
        carries = variant["capacity"]["tokensPerSecond"] * variant["replicas"]
        row = (number, variant["name"], variant["accelerator"], carries)
        db.execute("INSERT INTO variant VALUES (?,?,?,?)", row)


def rank(db: sqlite3.Connection, query: str, *values: object) -> dict[str, int | None]:
    """Nearest-rank percentiles of the one column that a query gives."""
    found = sorted(row[0] for row in db.execute(query, values))
    out: dict[str, int | None] = {"count": len(found)}
    for percent in (50, 95, 99):
        position = math.ceil(percent * len(found) / 100)
        out[f"p{percent}"] = found[position - 1] if found else None
    return out


def measured(db: sqlite3.Connection, where: str, *values: object) -> dict[str, Any]:
    """Counts and latencies of the requests that a condition on `done` and `sent` selects."""
    served = f"SELECT id FROM done WHERE {where}"
    requests, prompt, cached, completion = db.execute(
        f"SELECT COUNT(*), TOTAL(prompt), TOTAL(cached), TOTAL(completion) FROM done WHERE {where}",
        values,
    ).fetchone()
    # The row of all variants has the latencies of every request, also of those nobody finished.
    chosen = "SELECT id FROM sent" if where == "1" else served
    first = f"SELECT first - start FROM sent WHERE first IS NOT NULL AND id IN ({chosen})"
    between = (
        "SELECT b.at - a.at FROM chunk a JOIN chunk b ON a.id = b.id AND b.number = a.number + 1 "
        f"WHERE a.id IN ({chosen})"
    )
    return {
        "requests": requests,
        "promptTokens": int(prompt),
        "cachedTokens": int(cached),
        "completionTokens": int(completion),
        "tokens": int(prompt + completion),
        "prefixHitRate": int(cached) / int(prompt) if prompt else None,
        "ttftUs": rank(db, first, *values),
        "itlUs": rank(db, between, *values),
    }


def endings(db: sqlite3.Connection, stream: int) -> dict[str, int]:
    """How many requests came to each end."""
    kinds = ("done", "error-event", "silent", "refused", "client-error")
    count = "SELECT COUNT(*) FROM sent WHERE stream = ? AND ended = ?"
    return {kind: db.execute(count, (stream, kind)).fetchone()[0] for kind in kinds}


def retries(folder: Path) -> dict[str, int]:
    """The router's own count of second and later attempts: of all requests, of non-streams."""
    text = (folder / "metrics.txt").read_text("utf-8")
    lines = [x for x in text.splitlines() if x.startswith("llmd_router_retries_total{")]

    def total(word: str) -> int:
        return sum(round(float(x.rsplit(" ", 1)[1])) for x in lines if word in x)

    return {"all": total(""), "nonStreams": total('stream="false"')}


def run(folder: Path) -> dict[str, Any]:
    """Recompute one run."""
    db = sqlite3.connect(":memory:")
    db.executescript(TABLES)
    fill(db, folder)
    everything = measured(db, "1")
    capacity = sum(row[0] for row in db.execute("SELECT capacity FROM variant ORDER BY number"))
    rows = []
    query = "SELECT name, accelerator, capacity FROM variant ORDER BY number"
    for name, accelerator, carries in db.execute(query).fetchall():
        mine = measured(db, "variant = ?", name)
        total = everything["tokens"]
        share = {
            "tokenShare": mine["tokens"] / total if total else None,
            "capacityShare": carries / capacity if capacity else None,
        }
        rows.append({"name": name, "accelerator": accelerator, **share, **mine})
    streams, others = endings(db, 1), endings(db, 0)
    db.close()
    return {
        "scheduler": folder.name,
        "requests": sum(streams.values()) + sum(others.values()),
        "variants": rows,
        "all": everything,
        "ended": {"streams": streams, "nonStreams": others},
        "retried": retries(folder),
        "streamsEndedByErrorEvent": streams["error-event"],
        "silentEnds": streams["silent"] + others["silent"],
    }


def recompute(folder: Path) -> list[dict[str, Any]]:
    """Recompute every run that a demo kept in `folder`, in the order they were made."""
    names = json.loads((folder / "runs.json").read_text("utf-8"))
    return [run(folder / "runs" / name) for name in names]


if __name__ == "__main__":
    json.dump(recompute(Path(sys.argv[1])), sys.stdout, indent=2)
