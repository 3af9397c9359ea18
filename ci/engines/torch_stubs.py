"""Makes the CUDA build of torch import on a machine without CUDA. Run by the vLLM environment.

PyPI's torch links against some twenty NVIDIA libraries, 4 GB that a CPU never calls. For each one
that is missing this compiles a stub into torch/lib which exports exactly the symbols that torch's
own libraries import from it, under the same symbol versions. Every stub function answers 100
(cudaErrorNoDevice), so torch.cuda.is_available() is False and nothing else of CUDA is reached.
"""

import collections
import re
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

# Libraries whose symbols carry no version: the owner is known by the symbol's prefix.
UNVERSIONED = {
    "libcufile.so.0": re.compile("cuFile[A-Z]"),
    "libcusparseLt.so.0": re.compile("cusparseLt[A-Z]"),
    "libnccl.so.2": re.compile("p?nccl[A-Z]"),
}
# The driver's library: torch opens it by hand and copes without.
NOT_STUBBED = {"libcuda.so.1"}
NEEDED = re.compile(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]")


@dataclass
class Imports:
    """What torch's libraries ask of the NVIDIA libraries."""

    libraries: set[str] = field(default_factory=set)
    symbols: dict[tuple[str, str], set[str]] = field(
        default_factory=lambda: collections.defaultdict(set)
    )  # (library, version) -> names
    owner: dict[str, str] = field(default_factory=dict)  # version -> library


def readelf(flags: str, library: Path) -> list[str]:
    """One table of an ELF file, as lines."""
    argv = ["readelf", flags, "-W", str(library)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def read_library(library: Path, imports: Imports) -> None:
    """Adds one library's needs and undefined symbols."""
    imports.libraries |= set(NEEDED.findall("\n".join(readelf("-d", library))))
    current = None
    for line in readelf("-V", library):
        if match := re.search(r"File: (\S+)", line):
            current = match[1]
        elif current and (match := re.search(r"Name: (\S+) +Flags", line)):
            imports.owner[match[1]] = current
    for columns in map(str.split, readelf("--dyn-syms", library)):
        if len(columns) < 8 or columns[6] != "UND":
            continue
        name, _, version = columns[7].partition("@")
        if version:
            imports.symbols[imports.owner.get(version, version), version].add(name)
            continue
        for owner, pattern in UNVERSIONED.items():
            if pattern.match(name):
                imports.symbols[owner, ""].add(name)


def write_stub(folder: Path, library: str, versions: dict[str, set[str]]) -> None:
    """Compiles the stub of one library: its functions, and a map of their versions."""
    names = sorted(set().union(*versions.values()))
    # __cudaRegister… run when torch is loaded and must succeed.
    answers = {name: 0 if name.startswith("__cuda") else 100 for name in names}
    source = "".join(f"long {n}(void) {{ return {a}; }}\n" for n, a in answers.items())
    version_map = folder / "stub.map"
    version_map.write_text(
        "".join(f"{v} {{ global: {'; '.join(sorted(s))}; }};\n" for v, s in versions.items() if v)
    )
    argv = ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", f"-Wl,-soname,{library}"]
    argv += ["-o", str(folder / library)]
    if version_map.stat().st_size:
        argv.append(f"-Wl,--version-script={version_map}")
    subprocess.run(argv, input=source or "int stub;", text=True, check=True)
    version_map.unlink()


def main() -> None:
    """Reads all of torch's libraries, then writes one stub for each missing library."""
    folder = Path(sysconfig.get_path("purelib")) / "torch" / "lib"
    imports = Imports()
    for path in sorted(folder.glob("lib*.so")):
        read_library(path, imports)
    for missing in sorted(imports.libraries - NOT_STUBBED):
        versions = {v: s for (owner, v), s in imports.symbols.items() if owner == missing}
        write_stub(folder, missing, versions)


if __name__ == "__main__":
    main()
