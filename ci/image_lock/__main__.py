"""Writes the locks of images. See `ci.image_lock`; `ci/generate --lock` runs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from ci.image_lock.login import BadLogin, DockerConfig
from ci.image_lock.registry import SECONDS, Registry, Unresolved
from ci.images import FOLDER, ROOT, bases
from llmd_ctl.plan.placement import PICKER, PROXY
from llmd_ctl.profiles import Catalog
from llmd_ctl.profiles.image_lock import FILE

RENDERED = ROOT / "llmd_ctl" / "profiles" / FILE
PROXY_HINT = "see to HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and `proxies` in docker's config.json"
Digests = Mapping[str, str | None]


@dataclass(frozen=True)
class Lock:
    """A file of digests: the comment at its top stays, and what it has to name."""

    file: Path
    names: tuple[str, ...]

    def read(self) -> Digests:
        """What it says now."""
        found: Digests = yaml.safe_load(self.file.read_text()) or {}
        return found

    def write(self, found: Digests) -> None:
        """Write it whole or not at all; a name that was not found keeps what it had."""
        head = "".join(
            line for line in self.file.read_text().splitlines(keepends=True)
            if line.startswith("#")
        )  # fmt: skip
        kept = {name: found.get(name) or self.read().get(name) for name in self.names}
        body = yaml.safe_dump(kept, sort_keys=False, width=10_000)
        new = self.file.with_suffix(".new")
        try:
            with new.open("w") as file:
                file.write(head + body)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.file)
        finally:
            new.unlink(missing_ok=True)


def rendered() -> tuple[str, ...]:
    """Every image that a plan names by itself, but for the router's, which nobody publishes yet."""
    catalog = Catalog()
    named = {PICKER.reference, PROXY.reference}
    for name in catalog.names("AcceleratorProfile"):
        for engine in catalog.accelerator(name).spec.engines.values():
            named |= {
                image.reference
                for image in engine.images.values()
                if image.reference is not None and image.digest is None
            }
    return tuple(sorted(named))


def locks() -> tuple[Lock, ...]:
    """Every lock of this tree."""
    folders = sorted(path.parent for path in FOLDER.glob("*/lock.yaml"))
    beside = (Lock(folder / "lock.yaml", bases(folder.name)) for folder in folders)
    return (Lock(RENDERED, rendered()), *beside)


def asked(registry: Registry, names: tuple[str, ...], known: Digests) -> Iterator[tuple[str, str]]:
    """Ask for each image; what fails is told, and is not there."""
    for name in names:
        try:
            digest = registry.digest(name)
        except Unresolved as error:
            print(f"error: {error}\n  hint: {error.remedy}", file=sys.stderr, flush=True)
            continue
        before = known.get(name)
        state = "new" if before is None else "as it was" if before == digest else "changed"
        print(f"{name}: {digest} ({state})", flush=True)
        yield name, digest


def update(all_: tuple[Lock, ...], registry: Registry | None) -> int:
    """Write all locks; 1 where an image of them was not found. Without a registry none is asked."""
    known = {name: digest for lock in all_ for name, digest in lock.read().items()}
    names = tuple(dict.fromkeys(name for lock in all_ for name in lock.names))
    found = {} if registry is None else dict(asked(registry, names, known))
    for lock in all_:
        lock.write(found)
    if registry is None:
        return 0
    print(f"{len(found)} of {len(names)} images have the digest that their registry tells now")
    return 0 if len(found) == len(names) else 1


def main() -> None:
    """Asks and writes."""
    parser = argparse.ArgumentParser(prog="ci/generate --lock", description="Digests of images.")
    parser.add_argument("--offline", action="store_true", help="ask nobody: only names anew")
    if parser.parse_args().offline:
        sys.exit(update(locks(), None))
    try:
        config = DockerConfig.read(os.environ)
    except BadLogin as error:
        sys.exit(f"error: {error.message}\n  hint: {error.remedy}")
    config.set_proxies(os.environ)
    try:
        client = httpx.Client(timeout=SECONDS, follow_redirects=True)
    except (ValueError, ImportError, httpx.InvalidURL):  # not quoted: it may hold a password
        sys.exit(f"error: a proxy cannot be used\n  hint: {PROXY_HINT}")
    with client:
        sys.exit(update(locks(), Registry(client, config)))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"error: a lock cannot be read or written: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
