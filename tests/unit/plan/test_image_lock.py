"""Images that a plan names by itself are rendered by the digest of the lock, where it has one."""

from __future__ import annotations

import pytest

from llmd_ctl.plan import placement
from llmd_ctl.profiles import image_lock
from llmd_ctl.render.targets import render_target
from tests.unit.plan.fleets import fleet_text, plan_text

ENGINE = "vllm/vllm-openai:v0.32.0"
LOCK = {name: f"sha256:{digit * 64}" for name, digit in (
    (ENGINE, "1"), (placement.PICKER.reference, "2"), (placement.PROXY.reference, "3"),
)}  # fmt: skip


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_lock, "locked", lambda: LOCK)


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_lock, "locked", dict)


def on(kind: str, more: str = "", spec: str = "") -> str:
    text = fleet_text(f"- {{accelerator: nvidia-h100{more}}}", spec=spec)
    return text.replace("kind: local", f"kind: {kind}")


def tags(text: str) -> list[str]:
    told = [p.message for p in plan_text(text, simulate=None).warnings if p.code == "LC3053"]
    return [message.split()[2] for message in told if "llmd-ctl/router" not in message]


def rendered(text: str) -> str:
    return "".join(file.text for file in render_target(plan_text(text, simulate=None), "here"))


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
@pytest.mark.usefixtures("filled")
def test_a_digest_of_the_lock_is_rendered_and_nothing_is_warned_of(kind: str) -> None:
    assert tags(on(kind)) == []
    assert f"image: {ENGINE}@{LOCK[ENGINE]}" in rendered(on(kind))


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
@pytest.mark.usefixtures("empty")
def test_without_one_the_tag_is_rendered_and_named_in_a_warning(kind: str) -> None:
    assert tags(on(kind)) == [ENGINE]
    text = rendered(on(kind))
    assert f"image: {ENGINE}\n" in text
    assert ENGINE + "@" not in text


@pytest.mark.usefixtures("filled")
def test_llm_ds_images_are_of_the_lock_too() -> None:
    text = on("kubernetes", spec="router: {kind: llm-d}")
    assert tags(text) == []
    picker = placement.PICKER.reference
    assert f"{picker}@{LOCK[picker]}" in rendered(text)
    assert placement.proxy_image().digest == LOCK[placement.PROXY.reference]


@pytest.mark.usefixtures("filled")
def test_what_the_fleet_names_stays_as_it_names_it() -> None:
    text = on("compose", f", engine: {{name: vllm, image: '{ENGINE}'}}")
    assert f"image: {ENGINE}\n" in rendered(text)


@pytest.mark.usefixtures("empty")
def test_an_image_of_many_variants_is_warned_of_once_at_the_first() -> None:
    many = "\n".join(f"- {{name: v{n}, accelerator: nvidia-h100}}" for n in range(3))
    text = fleet_text(many).replace("kind: local", "kind: kubernetes")
    assert tags(text) == [ENGINE]
    told = [p for p in plan_text(text, simulate=None).warnings if ENGINE in p.message]
    assert [p.place.path for p in told if p.place] == ["spec.models[0].variants[0].accelerator"]
