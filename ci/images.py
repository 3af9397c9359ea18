"""The matrix of accelerators, images and smoke tests: run it to write ci/images.yaml anew.

It joins what the profiles say of an accelerator (its image, the processor beside it) with what
`images/NAME/image.yaml` promises. ci/images.yaml stands as `strategy` in a job of GitHub Actions,
which runs `run` by `sh -c` inside the image. Called by `ci/generate`; `tests/house/test_images.py`
checks the written file. It builds, pulls and asks for no image.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml

from llmd_ctl.errors import SpecInvalid
from llmd_ctl.profiles import Accelerator, Catalog, EngineOn
from llmd_ctl.profiles.accelerator import HostArchitecture
from llmd_ctl.profiles.container import Image
from llmd_ctl.profiles.document import Checker, build
from llmd_ctl.profiles.number import Words
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.source import read_source

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "ci" / "images.yaml"
FOLDER = ROOT / "images"
HEAD = """\
# Written by ci/images.py from the profiles and images/*/image.yaml. The `strategy` of a job.
# `context` is the folder to build, empty where `image` is taken as it is published. `pinned: false`
# is a tag whose digest nobody has looked up yet.
# Left out, for want of an image or of an engine that is built: {left}.
"""
RUNNERS = {"amd64": "ubuntu-24.04", "arm64": "ubuntu-24.04-arm"}  # without an accelerator
ENGINE = "vllm"

Json = dict[str, Any]
Smoke = Annotated[str, Words(("engine", "transfer", "cache", "device"))]


@dataclass(frozen=True)
class SmokeTest:
    """A command that ends with 0 in an image that is sound. `device`: only beside its device."""

    name: Smoke
    run: str
    device: bool = False


@dataclass(frozen=True)
class Recipe:
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


def recipe(name: str) -> Recipe:
    """Read images/NAME/image.yaml; raises `SpecInvalid` with every fault."""
    findings = Findings(read_source(FOLDER / name / "image.yaml"))
    (document,) = compose(findings)
    Checker(findings, document, partial=False).check(Recipe, ("spec",))
    if findings.problems():
        raise SpecInvalid(findings.problems())
    return build(Recipe, document.root.plain()["spec"], name)


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
    made = recipe(image.recipe) if image.recipe else None
    base = made.base if made is not None else str(image.reference)
    digest = lock(image.recipe)[base] if image.recipe else image.digest
    (architecture, *_) = accelerator.spec.host_architectures
    version = on.version or newest
    tests = (
        made.smoke if made else (SmokeTest("engine", f"{ENGINE} --version | grep -F {version}"),)
    )
    for test in tests:
        runner = ["self-hosted", accelerator.name] if test.device else [RUNNERS[architecture]]
        yield {
            "accelerator": accelerator.name,
            "image": f"{base}@{digest}" if digest else base,
            "pinned": digest is not None,
            "context": f"images/{image.recipe}" if image.recipe else "",
            "platform": f"linux/{architecture}",
            "smoke": test.name,
            "run": test.run,
            "runner": runner,
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
    include = [row for found in by_name.values() for row in found]
    document = {"fail-fast": False, "matrix": {"include": include}}
    body = yaml.safe_dump(document, sort_keys=False, width=10_000, default_flow_style=None)
    return HEAD.format(left=left) + body


def main() -> None:
    """Writes the file."""
    FILE.write_text(text())


if __name__ == "__main__":
    main()
