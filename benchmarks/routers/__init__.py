"""The parts of `benchmarks/router.py`: who is measured, with what, and how it is told."""
