"""Results as they are compared: structs field by field, rows in any order sorted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuprof.families import Arrays


def by_field(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return arrays of structs as one array a field, "points.x"; all others as they are."""
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.dtype.names:
            found |= by_field({f"{name}.{field}": array[field] for field in array.dtype.names})
        else:
            found[name] = array
    return found


def in_order(arrays: Arrays, groups: Sequence[str | tuple[str, ...]]) -> dict[str, np.ndarray]:
    """Return arrays with the rows of each group sorted: by the first one's columns, then by the next one's."""
    found = dict(arrays)
    for group in groups:
        wanted = (group,) if isinstance(group, str) else group
        names = [name for each in wanted for name in arrays if name.partition(".")[0] == each]
        columns = [column for name in names for column in arrays[name].reshape(len(arrays[name]), -1).T]
        if columns and columns[0].size:
            order = np.lexsort(columns[::-1])
            found |= {name: arrays[name][order] for name in names}
    return found
