"""y = A · x of a sparse matrix in rows (CSR), with the tunables of Kernel Tuner's example of this name."""

import numpy as np
from scipy.sparse import csr_array

import cuprof


def inputs(rng, n=128 * 1024, per_mille=1):
    count = n * n * per_mille // 1000
    rows = np.concatenate([[0], np.sort(rng.integers(0, count, n - 1)), [count]]).astype(np.int32)
    cols = rng.integers(0, n, count, np.int32)
    values, x = rng.standard_normal(count, np.float32), rng.standard_normal(n, np.float32)
    return {"y": np.empty(n, np.float32), "rows": rows, "cols": cols, "values": values, "x": x, "n": np.int32(n)}


spmv = cuprof.kernel(
    "spmv", source="spmv.cu", threads=lambda n: n * 32, block_size_x=range(32, 1025, 32), read_only=[0, 1]
)
cuprof.compare(
    spmv, inputs=inputs, outputs="y", reference=lambda rows, cols, values, x: csr_array((values, cols, rows)) @ x
)
