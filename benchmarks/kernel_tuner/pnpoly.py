"""Which points lie inside of a polygon of 600 corners on a circle, with the tunables of Kernel Tuner's example."""

import numpy as np

import cuprof


def inputs(rng, n=20_000_000):
    angles = np.sort(rng.random(600) * 2 * np.pi)[::-1]
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ends = np.roll(corners, 1, axis=0)
    points = rng.standard_normal((n, 2), np.float32)
    points[np.abs(np.hypot(*points.T) - 0.98) < 0.03] *= 0.9  # none so near to an edge that rounding decides
    slopes = (ends - corners)[:, 0] / (ends - corners)[:, 1]
    return {"inside": np.empty(n, np.int32), "points": points, "corners": corners, "slopes": slopes, "n": np.int32(n)}


pnpoly = cuprof.kernel(
    "pnpoly",
    source="pnpoly.cu",
    args=("inside", "points", "n"),
    constants={"constant_corners": "corners", "constant_slopes": "slopes"},
    threads=lambda n, tile_size: -(-n // tile_size),
    block_size_x=range(32, 993, 32),
    tile_size=[1, *range(2, 21, 2)],
    between_method=[0, 1, 2, 3],
    use_precomputed_slopes=[0, 1],
    use_method=[0, 1],
)
cuprof.compare(pnpoly, inputs=inputs, outputs="inside", reference=lambda points: np.hypot(*points.T) < 0.98)
