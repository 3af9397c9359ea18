"""Who decides each engine flag of a variant: one rule of precedence, and what was overruled.

    engine default < profile < plan < defaults < model < variant < engineArgs < extraArgs

Called by `variant`. Every effective value keeps who set it. What a profile marks as `must` is
changed only by a variant that says `unsafe: true`, and that is warned of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan import flag_hint
from llmd_ctl.plan.flags import FlagReader, Given, written
from llmd_ctl.plan.records import Scalar, Setting
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles.accelerator import Accelerator, EngineOn, ProfileSetting
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.spec.fleet import EngineRef

ENGINE_DEFAULT = "engine default"
PLAN = "plan"
VARIANT = 5  # keys of the path to a variant: spec, models, number, variants, number
SPLITS = {"tensor", "pipeline", "data", "expert"}  # what an engine without such a flag cannot do


class _Effective(Struct, frozen=True):
    setting: Setting
    words: tuple[str, ...]
    path: Path | None  # where the user wrote it; None: no user did


class Settings:
    """The flags of one variant's engine. Fill it from the lowest level to the highest."""

    def __init__(
        self,
        engine: Engine,
        accelerator: Accelerator,
        on: EngineOn,
        report: Report,
        unsafe_at: Path | None,
    ) -> None:
        """`unsafe_at`: where the variant says `unsafe: true`; None when it does not."""
        self.engine = engine
        self._accelerator = accelerator.name
        self._profile = on.settings
        self._report = report
        self._reader = FlagReader(engine, report, flag_hint.for_connector(engine, on))
        self._unsafe_at = unsafe_at
        self._unsafe_used = False
        self._by_flag: dict[str, _Effective] = {}
        self.left_out: list[str] = []
        for flag, value in engine.spec.defaults.items():
            self._put(flag, value, ENGINE_DEFAULT, (), None)
        for flag, setting in on.settings.items():
            known = engine.spec.flags.get(flag)
            if known is not None:
                words = written(flag, known, setting.value)
                self._put(flag, setting.value, f"profile {accelerator.name}", words, None)

    # --- levels ---

    def arguments(self, args: Mapping[str, Scalar], set_by: str, path: Path) -> None:
        """Take the `engineArgs` of one level."""
        for name, value in args.items():
            given = self._reader.argument(name, value, (*path, name))
            if given is not None:
                self._take(given, set_by)

    def extra(self, words: Sequence[str], set_by: str, path: Path) -> None:
        """Take `extraArgs`; of a flag that is given twice, the later one counts."""
        for given in self._reader.raw(words, path):
            self._take(given, set_by)

    def field(self, role: str, value: Scalar | None, set_by: str, path: Path) -> None:
        """Take a field of the fleet file that a flag stands for, such as maxModelLen."""
        flag = self.engine.spec.roles.get(role)
        if flag is None and role in SPLITS and _splits(value):
            message = f"{self.engine.name} cannot split a replica, so {role} is 1"
            self._report.add("LC3011", message, path, allowed=("1",))
        if value is None or flag is None:
            return
        known = self.engine.spec.flags.get(flag)
        self._take(Given(flag, value, written(flag, known, value), path), set_by)

    def experts(self, ways: int | None, set_by: str, path: Path) -> None:
        """Take how many ways experts are dealt out: engines have a switch for it, or the number."""
        known = self.engine.spec.flags.get(self.engine.spec.roles.get("expert", ""))
        counts = known is not None and known.type == "int"
        self.field("expert", ways if counts or ways is None else ways > 1, set_by, path)

    def leave_out(self, what: str, engine: EngineRef) -> None:
        """Keep in mind what was written for another engine, so that it is said and not lost."""
        self.left_out.append(f"{what} is for {engine.name}: left out here")

    def decide(self, role: str, value: Scalar, set_by: str = PLAN) -> None:
        """Take what the plan decides where no user did."""
        flag = self.engine.spec.roles.get(role)
        if flag is None or self.path_of(role) is not None:
            return
        default = self.engine.spec.defaults.get(flag)
        before = self._by_flag.get(flag)
        if value == default and (before is None or before.setting.set_by == ENGINE_DEFAULT):
            return
        words = written(flag, self.engine.spec.flags.get(flag), value)
        self._put(flag, value, set_by, words, None)

    def multiply_context(self) -> None:
        """Turn maxModelLen into the context of all sequences, for an engine that divides it."""
        flag = self.engine.spec.roles.get("maxModelLen", "")
        found, sequences = self._by_flag.get(flag), self.whole("maxSequences")
        if found is None or sequences is None or not self.engine.spec.context_times_sequences:
            return
        total = int(found.setting.value) * sequences
        words = written(flag, self.engine.spec.flags.get(flag), total)
        self._by_flag[flag] = replace(
            found, setting=replace(found.setting, value=total), words=words
        )

    def _take(self, given: Given, set_by: str) -> None:
        must = self._profile.get(given.base)
        if (
            must is not None
            and not _as_good(must, given.value)
            and not self._permitted(given, must)
        ):
            return
        if self._breaks(given):
            return
        counted = self.engine.spec.uncounted.get(given.base)
        if counted is not None and given.value != self.engine.spec.inert.get(given.base):
            message = f"the plan does not count what {given.flag} changes: {counted}"
            self._report.warn("LC2027", message, given.path)
        self._put(given.flag, given.value, set_by, given.words, given.path)

    def _permitted(self, given: Given, must: ProfileSetting) -> bool:
        wanted = f"a multiple of {must.multiple_of}" if must.multiple_of else str(must.value)
        message = f"{given.flag} must be {wanted} on {self._accelerator}: {must.reason}"
        hint = f"Use {wanted}; `unsafe: true` beside it insists, at your own risk."
        return self._insisted("LC2024", message, given, (wanted,), hint)

    def _breaks(self, given: Given) -> bool:
        """Whether a value would break serving, and nobody insists on it."""
        broken = self.engine.spec.breaks.get(given.base)
        if broken is None or (broken.values and given.value not in broken.values):
            return False
        if given.value == self.engine.spec.inert.get(given.base):
            return False
        said = f"{given.flag} {given.value}" if broken.values else given.flag
        message = f"{said} would break serving: {broken.reason}"
        hint = "Remove it; `unsafe: true` in the variant insists, at your own risk."
        return not self._insisted("LC2030", message, given, (), hint)

    def _insisted(
        self, code: str, message: str, given: Given, allowed: tuple[str, ...], hint: str
    ) -> bool:
        """Refuse a value, or warn of it where the variant says `unsafe: true`."""
        if self.insists(message):
            return True
        self._report.add(
            code, message, given.path, found=str(given.value), allowed=allowed, hint=hint
        )
        return False

    def insists(self, message: str) -> bool:
        """Whether the variant says `unsafe: true`: then what is refused is warned of instead."""
        if self._unsafe_at is None:
            return False
        self._unsafe_used = True
        self._report.warn("LC2028", f"overruled by unsafe: {message}", self._unsafe_at)
        return True

    def check_unsafe(self) -> None:
        """Warn of an `unsafe: true` that nothing needed; called when all was judged."""
        if self._unsafe_at is not None and not self._unsafe_used:
            self._report.warn("LC2029", "unsafe: true overrules nothing here", self._unsafe_at)

    def _put(
        self, flag: str, value: Scalar, set_by: str, words: tuple[str, ...], path: Path | None
    ) -> None:
        before = self._by_flag.get(flag)
        overruled: tuple[str, ...] = ()
        if before is not None and before.setting.set_by != ENGINE_DEFAULT:
            said = f"{before.setting.set_by}: {before.setting.value}"
            overruled = (*before.setting.overruled, said)
            self._warn_twice(flag, value, before, path)
        self._by_flag[flag] = _Effective(Setting(value, set_by, overruled), words, path)

    def _warn_twice(self, flag: str, value: Scalar, before: _Effective, path: Path | None) -> None:
        """One variant that says a thing twice says one of the two in vain."""
        if path is None or before.path is None or before.setting.value == value:
            return
        if path[:VARIANT] == before.path[:VARIANT]:
            above = f"{before.path[VARIANT]}: {before.setting.value}"
            message = f"{flag} {value} overrules what the variant says in {above}"
            self._report.warn("LC2042", message, path)

    # --- results ---

    def value(self, role: str) -> Scalar | None:
        """The effective value of what a role's flag says; None when nobody said it."""
        flag = self.engine.spec.roles.get(role)
        found = self._by_flag.get(flag) if flag is not None else None
        if found is None:
            return self.engine.spec.assumed.get(role)
        return found.setting.value

    def whole(self, role: str) -> int | None:
        """The effective value as a whole number."""
        value = self.value(role)
        return int(value) if isinstance(value, int | float) else None

    def path_of(self, role: str) -> Path | None:
        """Where the user wrote the effective value; None when no user did."""
        found = self._by_flag.get(self.engine.spec.roles.get(role, ""))
        return found.path if found is not None else None

    def place(self, flag: str) -> Path | None:
        """Where the user wrote a flag, or a key inside its value; None when no user did."""
        for name, found in self._by_flag.items():
            if name.partition(".")[0] == flag and found.path is not None:
                return found.path
        return None

    def said(self) -> dict[str, Scalar]:
        """Every value that a user or a profile set, by flag: no default of the engine."""
        return {
            flag: found.setting.value
            for flag, found in self._by_flag.items()
            if found.setting.set_by != ENGINE_DEFAULT
        }

    def others(self) -> dict[str, str]:
        """Who set the values that no user wrote, by flag, for messages."""
        words = {ENGINE_DEFAULT: "the engine's default", PLAN: "set by the plan"}
        others = {f: e.setting.set_by for f, e in self._by_flag.items() if e.path is None}
        return {flag: words.get(who, f"set by {who}") for flag, who in others.items()}

    def all(self) -> dict[str, Setting]:
        """Every effective setting, by flag, sorted."""
        return {flag: self._by_flag[flag].setting for flag in sorted(self._by_flag)}

    def words(self) -> tuple[str, ...]:
        """The flags as they stand on the command line: sorted, and no engine defaults."""
        return tuple(word for flag in sorted(self._by_flag) for word in self._by_flag[flag].words)


def _splits(value: Scalar | None) -> bool:
    """Whether a parallelism is more than none."""
    return value is True or (isinstance(value, int) and value > 1)


def _as_good(must: ProfileSetting, value: Scalar) -> bool:
    """Whether a value is as good as the profile's, or need not be."""
    if not must.must:
        return True
    if must.multiple_of and type(value) is int:
        return value > 0 and value % must.multiple_of == 0
    return value == must.value
