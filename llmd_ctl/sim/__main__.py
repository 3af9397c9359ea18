"""`python -m llmd_ctl.sim`: how the controller starts a simulated engine."""

import sys

from llmd_ctl.sim import main

sys.exit(main())
