"""`python -m llmd_ctl.controller --fleet NAME --state FOLDER`: how `apply` starts a controller."""

import argparse
import sys
from pathlib import Path

from llmd_ctl.apply.files import RealFiles
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.controller.run import run
from llmd_ctl.errors import LlmdError, render_problem


def main() -> int:
    """Parse the two arguments and run."""
    parser = argparse.ArgumentParser(prog="llmd_ctl.controller", description=__doc__)
    parser.add_argument("--fleet", required=True)
    parser.add_argument("--state", required=True, type=Path)
    arguments = parser.parse_args()
    try:
        return run(StateFolder(arguments.fleet, arguments.state, RealFiles()))
    except LlmdError as error:
        for problem in error.problems:
            sys.stderr.write(render_problem(problem) + "\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
