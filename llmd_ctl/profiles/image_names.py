"""Container images and programs by name: which engine they are, on which platforms, how old.

Called by `plan.manifests` for pods that somebody else wrote; what is known is `images.yaml` beside
this file. It asks no registry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml
from msgspec import Struct, field

VERSION = re.compile(r"v?([0-9]+\.[0-9]+(\.[0-9]+)?(\.?(post|rc)[0-9]+)?)([-_+].*)?")


class ImageName(Struct, frozen=True):
    """A reference in its parts. `tag` None: none is written."""

    name: str
    tag: str | None = None
    digest: str | None = None

    @property
    def base(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    @property
    def words(self) -> tuple[str, ...]:
        """The parts of the tag."""
        return tuple((self.tag or "").lower().split("-"))

    @property
    def moves(self) -> bool:
        """Whether something else may be found under it tomorrow."""
        if self.digest is not None:
            return False
        patterns = _table()["moving"]
        return self.tag is None or any(re.fullmatch(each, self.tag) for each in patterns)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        return f"{self.name}{tag}" if self.digest is None else f"{self.name}{tag}@{self.digest}"


class KnownImage(Struct, frozen=True):
    """A row of the table, and how an image's name came to it."""

    name: str
    source: str
    engine: str = ""
    platforms: tuple[str, ...] = ()
    version: str = "none"
    versions: Mapping[str, str] = field(default_factory=dict)
    entry: bool = False
    gone: str = ""
    part: str = ""
    architectures: Mapping[str, str] = field(default_factory=dict)  # by a word of the tag
    before: Mapping[str, str] = field(default_factory=dict)  # word of the tag to a version
    forked: bool = False  # the last part of the name is known, under somebody else

    def built_for(self, image: ImageName) -> str | None:
        """The pattern of architectures that an image is built for; None: its tag does not tell."""
        if image.tag is None:
            return None
        named = next((word for word in image.words if word in self.architectures), "")
        return self.architectures.get(named)

    def version_of(self, image: ImageName) -> str | None:
        """The engine's version in an image; None: its tag does not tell."""
        tag = image.tag or ""
        match = VERSION.fullmatch(tag) if self.version == "tag" else None
        return self.versions.get(tag, match[1] if match is not None else None)


def read_image(text: str) -> ImageName | None:
    """Take a reference apart; None where it is none."""
    name, _, digest = text.strip().partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, ""
    if not re.fullmatch(r"[A-Za-z0-9._:/-]+", path) or not re.fullmatch(r"[\w.-]*", tag):
        return None
    return ImageName(path, tag or None, digest or None)


def known_image(image: ImageName) -> KnownImage | None:
    """What the table says of an image, from its maker, a mirror, or under another owner."""
    rows: list[dict[str, Any]] = _table()["images"]
    plain = image.name.removeprefix("docker.io/")
    for row in sorted(rows, key=lambda row: -len(row["name"])):
        own = row["name"]
        if plain == own or plain.endswith(f"/{own}") or plain.endswith(_without_host(own)):
            return _row(row, forked=False)
    for row in rows:
        if image.base == row["name"].rpartition("/")[2]:
            return _row(row, forked=True)
    return None


def _without_host(name: str) -> str:
    """What a mirror keeps of a name."""
    host, _, rest = name.partition("/")
    return f"/{rest}" if "." in host else f"/{name}"


def _row(row: Mapping[str, Any], *, forked: bool) -> KnownImage:
    said = {**row, "platforms": tuple(row.get("platforms", ()))}
    return KnownImage(**said, forked=forked)


class Started(Struct, frozen=True):
    """An engine that words start; its own words begin at `at`.

    `model` is the flag that names the model; with `first`, the first of its own words may too.
    """

    engine: str
    at: int
    model: str = ""
    first: bool = False


def started(words: Sequence[str]) -> Started | None:
    """The engine that a command starts, through programs that start others; None: none is known."""
    at = _after_wrappers(words)
    for row in _table()["programs"]:
        pattern = row["words"]
        given = words[at : at + len(pattern)]
        if len(given) == len(pattern) and all(map(_is_word, given, pattern)):
            said = row.get("model", ""), row.get("first", False)
            return Started(row["engine"], at + len(pattern), *said)
    return None


def entered(engine: str) -> Started | None:
    """How an image starts its engine by itself."""
    rows = (row for row in _table()["programs"] if row["engine"] == engine)
    row = next(rows, None)
    return (
        None if row is None else Started(engine, 0, row.get("model", ""), row.get("first", False))
    )


def _after_wrappers(words: Sequence[str]) -> int:
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        row = next((row for row in _table()["wrappers"] if row["program"] == name), None)
        if row is None:
            return at
        at += 1
        while at < len(words) and any(re.fullmatch(each, words[at]) for each in row["options"]):
            at += 1
    return at


def _is_word(word: str, pattern: str) -> bool:
    base = word.rpartition("/")[2]
    if pattern == "python":
        return re.fullmatch(r"python[0-9.]*", base) is not None
    return base == pattern


@cache
def _table() -> Mapping[str, Any]:
    text = resources.files("llmd_ctl").joinpath("profiles/images.yaml").read_text("utf-8")
    table: Mapping[str, Any] = yaml.CSafeLoader(text).get_single_data()
    return table
