"""Scripts as people write them for kernel libraries, for `benchmarks.waiting`.

Each imports its library where it is installed, and otherwise has a Triton kernel written the same way in its place.
"""
