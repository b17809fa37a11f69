import pytest

from cuprof.core.text import format_bytes
from cuprof.families import Array


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (4294967296, "4.29 GB"),
        (150 * 10**9, "150 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_bytes_for_people(count, text):
    assert format_bytes(count) == text


def test_sizes_beyond_64_bits_do_not_wrap():
    assert Array((2**40, 2**40), "float32").nbytes == 2**82
