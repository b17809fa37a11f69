"""Arguments are held against the parameters that a source declares."""

from __future__ import annotations

import numpy as np
import pytest

from cuprof.backends.functions import find_absent, find_mismatch, read_parameters
from cuprof.families import Array, Fill, Invoke, Launch, Program, Repeat, Signature

SOURCE = """
/* int run(int a); */
#define SCALE(x) scale(x)
extern "C" int run(const float *__restrict__ x, float* y, int n, REAL factor);  // run(1)
extern "C" int run(const float *__restrict__ x, float* y, int n, REAL factor) { return helper(x, y); }
static void nothing(void) { run(x, y, n, f); }
template <class T, int N> __global__ void scale(const T *x, T *y, T factor, size_t n) {}
__kernel void items(__global const uint *x, __global float *y, const ulong n)
{ }
int twice(int n) { return n; }
int twice(float n) { return n; }
int many(const char *format, ...) { return 0; }
int signs(unsigned n, unsigned long long m, long double z, float v[4]) { return 0; }
int on_stream(float *x, cudaStream_t stream) { return 0; }
"""
TYPES = {"x": "float32", "wide": "float64", "bytes": "uint8", "k": "int64"}
SIGNATURE = Signature({name: Array((4,), dtype) for name, dtype in TYPES.items()}, {"y": Array((4,), "float32")})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Invoke("run", ("x", "y", 4, 2.0)), ""),
        (Invoke("run", ("x", "y", 4)), r"run takes 4 arguments (x, y, n, factor), and is given 3; name one in args="),
        (Invoke("run", ("x", "y", 4, 2.0, 5)), "takes 4 arguments"),
        (Invoke("run", ("x", "y", np.uint32(4), 2.0)), ""),
        (Invoke("run", ("x", "y", np.int64(4), 2.0)), "argument 3 as int n, and is given int64 4; give it as np.int32"),
        (Invoke("run", ("x", "y", "x", 2.0)), "argument 3 as int n, and is given the buffer x"),
        (Invoke("run", ("x", 5, 4, 2.0)), "argument 2 as float* y, and is given the number int32 5; name a buffer"),
        (Invoke("run", ("x", np.uint64(0), 4, 2.0)), ""),
        (Invoke("run", ("x", "y", 4, 2)), "argument 4 as REAL factor, and is given int32 2; give it as np.float32"),
        (Invoke("run", ("wide", "y", 4, 2.0)), "argument 1 as const float *__restrict__ x, and is given wide, whose"),
        (Invoke("run", ("bytes", "y", 4, 2.0)), ""),
        (Invoke("nothing", ()), ""),
        (Invoke("nothing", ("x",)), "nothing takes 0 arguments (), and is given 1"),
        (Invoke("twice", ("x",)), ""),
        (Invoke("many", ("x", "y")), ""),
        (Invoke("absent", ("x", "y")), ""),
        (Invoke("on_stream", ("x",)), ""),
        (Invoke("on_stream", ()), "on_stream takes 1 argument (x), and is given 0"),
        (Launch("scale<float, 4>", (1,), (1,), ("x", "y", 2.0, np.uint64(4))), ""),
        (Launch("scale<float, 4>", (1,), (1,), ("x", "y", 2.0, 4)), "size_t n, and is given int32 4"),
        (Launch("scale<float, 4>", (1,), (1,), ("x", "y", 2.0)), "scale takes 4 arguments (x, y, factor, n)"),
        (Launch("items", (1,), (1,), ("k", "y", np.int64(4))), "argument 1 as __global const uint *x, and is given k"),
        (Repeat((Launch("items", (1,), (1,), ("x", "y")),), 2), "items takes 3 arguments"),
    ],
)  # fmt: skip
def test_what_does_not_fit_its_declaration_is_named(call, said):
    found = find_mismatch(Program((Fill("y"), call), {"REAL": "float"}), SOURCE, SIGNATURE)
    assert said in found
    assert bool(said) == bool(found)


def test_a_function_that_the_source_does_not_name_is_absent():
    def find(name, text=SOURCE):
        return find_absent(Program((Fill("y"), Invoke(name, ()))), text)

    assert find("twice") == find("pasted_name", "#define NAME(a) pasted_##a") == ""
    assert find("missing") == "there is no function missing in the source"
    assert find_absent(Program((Launch("scale<float, 4>", (1,), (1,), ()),)), SOURCE) == ""


def test_types_are_read_whatever_their_spelling():
    found = read_parameters(SOURCE, "signs", {}) or ()
    assert [(each.name, each.is_pointer, each.type) for each in found] == [
        ("n", False, "i4"),
        ("m", False, "i8"),
        ("z", False, ""),
        ("v", True, "f4"),
    ]
