"""The matrix of accelerators, images and smoke tests: run it to write ci/images.yaml anew.

It joins what the profiles say of an accelerator (its image, the processor beside it) with what
`images/NAME/image.yaml` promises. ci/images.yaml is the `strategy` of a job of
.github/workflows/images.yaml, which runs `run` inside the image. Called by `ci/generate`;
`tests/house/test_images.py` checks the written file. It builds, pulls and asks for no image.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from msgspec import Struct

from llmd_ctl.errors import SpecInvalid
from llmd_ctl.profiles import Accelerator, Catalog, EngineOn
from llmd_ctl.profiles.accelerator import HostArchitecture
from llmd_ctl.profiles.container import Image
from llmd_ctl.profiles.document import Checker, build
from llmd_ctl.profiles.image_lock import digest_of
from llmd_ctl.profiles.number import Words
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.source import read_source

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "ci" / "images.yaml"
FOLDER = ROOT / "images"
HEAD = """\
# Written by ci/images.py from the profiles and images/*/image.yaml. The `strategy` of a job.
# `containerfile` is what is built in the folder `context` with the options `build`, all empty where
# `image` is taken as it is published. `pinned: false`: of a tag, nobody has looked up the digest.
# `shell: false`: the image has none, and `run` is a program and its words. `options` are those of
# `docker run`. `accelerator: none`: it needs none.
# Left out, for want of an image or of an engine that is built: {left}.
"""
RUNNERS = {"amd64": "ubuntu-24.04", "arm64": "ubuntu-24.04-arm"}  # without an accelerator
ENGINE = "vllm"
ROUTER = "router"  # built from this tree, and no engine
NO_ACCELERATOR = "none"

Json = dict[str, Any]
Smoke = Annotated[str, Words(("engine", "transfer", "cache", "device", "router", "simulated"))]


class SmokeTest(Struct, frozen=True):
    """A command that ends with 0 in an image that is sound. `device`: only beside its device."""

    name: Smoke
    run: str
    device: bool = False


class Recipe(Struct, frozen=True):
    """What an image promises."""

    engine: str
    version: str
    base: str  # what its Containerfile starts from, with the tag
    base_why: str
    architectures: tuple[HostArchitecture, ...]
    contains: Mapping[str, str]  # Python distributions, to their versions
    user: str
    user_why: str
    caches: tuple[str, ...]  # folders that the user may write
    smoke: tuple[SmokeTest, ...]
    build: str = ""  # what a stage before starts from, with the tag
    shell: bool = True  # whether it has one; else `run` is a program and its words


def recipe(name: str) -> Recipe:
    """Read images/NAME/image.yaml; raises `SpecInvalid` with every fault."""
    findings = Findings(read_source(FOLDER / name / "image.yaml"))
    (document,) = compose(findings)
    Checker(findings, document, partial=False).check(Recipe, ("spec",))
    if findings.problems():
        raise SpecInvalid(findings.problems())
    return build(Recipe, document.root.plain()["spec"], name)


def bases(name: str) -> tuple[str, ...]:
    """All images that a Containerfile starts from."""
    made = recipe(name)
    return (*([made.build] if made.build else []), made.base)


def lock(name: str) -> dict[str, str | None]:
    """Digests of what an image starts from."""
    found: dict[str, str | None] = yaml.safe_load((FOLDER / name / "lock.yaml").read_text())
    return found


def chosen(on: EngineOn, newest: str) -> Image | None:
    """The image of the version that a plan runs, or None where there is none to test."""
    image = on.images.get(on.version or newest)
    usable = image is not None and (image.recipe or image.reference)
    return image if usable and not on.not_yet else None


def rows(accelerator: Accelerator, newest: str) -> Iterator[Json]:
    """The rows of one accelerator."""
    on = accelerator.spec.engines[ENGINE]
    image = chosen(on, newest)
    if image is None:
        return
    (architecture, *_) = accelerator.spec.host_architectures
    if image.recipe:
        for test in recipe(image.recipe).smoke:
            row = _row(image.recipe, accelerator.name, architecture, test)
            yield {**row, "options": " ".join(_devices(accelerator))} if test.device else row
        return
    base = str(image.reference)
    version = on.version or newest
    test = SmokeTest("engine", f"{ENGINE} --version | grep -F {version}")
    digest = image.digest or digest_of(base)
    yield _written(accelerator.name, architecture, test, base, digest)


def router_rows() -> Iterator[Json]:
    """The rows of the router's own image, on each kind of processor."""
    made = recipe(ROUTER)
    for architecture in made.architectures:
        for test in made.smoke:
            yield _row(ROUTER, NO_ACCELERATOR, architecture, test)


def _devices(accelerator: Accelerator) -> Iterator[str]:
    """How a container of docker's gets all devices of the machine, as the profile has it."""
    container, visible = accelerator.spec.container, accelerator.spec.visible_devices
    if container is not None:
        yield from (f"--device={path}" for path in container.devices)
        yield from (f"--group-add={group}" for group in container.groups)
        yield from (f"--cap-add={name}" for name in container.capabilities)
        yield from [f"--security-opt=seccomp={container.seccomp.lower()}"] * (
            container.seccomp == "Unconfined"
        )
        yield from ["--ipc=host"] * container.host_ipc
        yield from [f"--runtime={container.runtime}"] * bool(container.runtime)
    if visible is not None:
        yield from (f"--device={path}" for path in visible.paths)
        yield from ["--gpus=all"] * bool(visible.driver)
        yield from ["--privileged"] * visible.privileged


def _row(name: str, accelerator: str, architecture: str, test: SmokeTest) -> Json:
    """The row of a test of an image that is built here."""
    made, digests = recipe(name), lock(name)
    row = _written(accelerator, architecture, test, made.base, digests[made.base])
    named = {"BASE": row["image"]}
    if made.build:
        named["BUILD"] = _pinned(made.build, digests[made.build])
        row["pinned"] = row["pinned"] and digests[made.build] is not None
    return {
        **row,
        "context": "." if name == ROUTER else f"images/{name}",
        "containerfile": f"images/{name}/Containerfile",
        "build": " ".join(f"--build-arg={key}={value}" for key, value in named.items()),
        "shell": made.shell,
    }


def _pinned(reference: str, digest: str | None) -> str:
    return f"{reference}@{digest}" if digest else reference


def _written(
    accelerator: str, architecture: str, test: SmokeTest, base: str, digest: str | None
) -> Json:
    """A row, as it is for an image that is taken as it is published."""
    return {
        "accelerator": accelerator,
        "image": _pinned(base, digest),
        "pinned": digest is not None,
        "context": "",
        "containerfile": "",
        "build": "",
        "platform": f"linux/{architecture}",
        "smoke": test.name,
        "shell": True,
        "options": "",
        "run": test.run,
        "runner": ["self-hosted", accelerator] if test.device else [RUNNERS[architecture]],
    }


def text() -> str:
    """The file's text."""
    catalog = Catalog.load()
    newest = catalog.engine(ENGINE).spec.version
    by_name = {
        name: list(rows(catalog.accelerator(name), newest))
        for name in catalog.names("AcceleratorProfile")
    }
    left = ", ".join(name for name, found in by_name.items() if not found)
    include = [*(row for found in by_name.values() for row in found), *router_rows()]
    document = {"fail-fast": False, "matrix": {"include": include}}
    body = yaml.safe_dump(document, sort_keys=False, width=10_000, default_flow_style=None)
    return HEAD.format(left=left) + body


def main() -> None:
    """Writes the file."""
    FILE.write_text(text())


if __name__ == "__main__":
    main()
