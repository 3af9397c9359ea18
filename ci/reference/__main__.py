"""Writes the pages under docs/reference/, or with `--check` compares them. See `ci.reference`."""

import argparse
import sys

from ci.reference import FOLDER, texts


def stale() -> list[str]:
    """The pages that are not what would be written, and files that are no page."""
    wanted = texts()
    there = {file.name for file in FOLDER.iterdir()} if FOLDER.is_dir() else set()
    differ = [name for name, text in wanted.items()
              if name not in there or (FOLDER / name).read_text() != text]  # fmt: skip
    return sorted([*differ, *(there - wanted.keys())])


def main() -> None:
    """Writes or compares."""
    parser = argparse.ArgumentParser(prog="python -m ci.reference", description="docs/reference/")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if different")
    if parser.parse_args().check:
        names = stale()
        if names:
            sys.exit(f"docs/reference: {', '.join(names)}: run `python -m ci.reference`")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text)
    print(f"ci/reference: wrote {FOLDER}")


if __name__ == "__main__":
    main()
