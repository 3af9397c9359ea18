"""`python -m llmd_ctl`: the same as the `llmd-ctl` command. Nothing else calls it."""

from llmd_ctl.cli import main

main()
