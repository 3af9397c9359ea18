"""What the user writes: fleet files, read, checked and typed.

    loader    all of it in order: `read_fleets`, and `load_fleets` for those who need all right
    source    files and standard input, as text
    compose   YAML to `nodes` that know their place (scalars: plain words; syntax: its errors,
              spacing: spaces and colons that are missing)
    fleet     the types (fields: the kinds of value; shape: the types asked by path)
    not_yet   fields of the format that are known and refused until they are built
    checks    rules over several fields; translate: pydantic's errors as problems (unknown: what an
              unknown key may be meant for)
    findings  where all of them put what they find
    json_text JSON that somebody else wrote, for the packages above

Called by `profiles`, `plan` and everything above. It knows no accelerator and no engine flag.
"""

from llmd_ctl.spec.fleet import Fleet
from llmd_ctl.spec.loader import LoadedFleet, load_fleets, read_fleets, spec_hash

__all__ = ["Fleet", "LoadedFleet", "load_fleets", "read_fleets", "spec_hash"]
