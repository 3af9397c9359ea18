"""`python -m llmd_ctl.router`: how the controller starts the router as its child."""

import sys

from llmd_ctl.router import main

sys.exit(main())
