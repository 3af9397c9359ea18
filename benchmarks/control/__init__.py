"""The parts of `benchmarks/control_plane.py`: the fleets it takes, and what it measures of them."""
