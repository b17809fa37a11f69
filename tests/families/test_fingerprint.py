import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from family_texts import HEAD, VARIANT, changes, texts

from cuprof.core.errors import FamilyError
from cuprof.families.fingerprint import contract_text, hash_text, installed_modules, source_text
from cuprof.families.origin import load_family

FAMILIES = Path(__file__).parent.parent / "data" / "families"


def test_a_function_used_through_another_counts(tmp_path):
    body = VARIANT.format(body="outer(1)") + "def outer(x):\n    return inner(x)\n\ndef inner(x):\n    return x + 1\n"
    assert changes(tmp_path, body, "x + 1", "x + 2")


def test_a_function_that_is_not_used_does_not_count(tmp_path):
    body = VARIANT.format(body="1") + "def other(x):\n    return x + 1\n"
    assert not changes(tmp_path, body, "x + 1", "x + 2")


def test_editing_one_variant_leaves_the_other_alone(tmp_path):
    other = VARIANT.format(body="111").replace('"a"', '"b"').replace("def a", "def b")
    body = VARIANT.format(body="1") + other
    assert set(texts(tmp_path, body)) == {"a", "b"}
    assert not changes(tmp_path, body, "111", "222")


def test_a_local_name_is_not_taken_for_a_module_one(tmp_path):
    body = """
@family.cpu("a")
def a(problem, tune, inputs, outputs):
    block = 3
    return lambda: [block for size in range(block)]

def block():
    return 1

def size():
    return 1
"""
    assert not changes(tmp_path, body, "return 1", "return 2")


def test_where_a_function_stands_does_not_count(tmp_path):
    helper = "\n\ndef helper():\n    return 1\n\n"
    variant = VARIANT.format(body="helper()")
    assert texts(tmp_path, helper + variant) == texts(tmp_path, "# a comment\nUNUSED = 4\n" + variant + helper)


def test_registration_does_not_count_and_other_decorators_do(tmp_path):
    body = """
@functools.lru_cache(3)
@family.cpu("a", origin="kernel 1", tunables=(Tunable("block", (1, 2), 1),))
@functools.lru_cache(4)
def a(problem, tune, inputs, outputs):
    return lambda: None
"""
    assert not changes(tmp_path, body, "kernel 1", "kernel 2")
    assert not changes(tmp_path, body, "(1, 2), 1", "(1, 2, 4), 1")
    assert changes(tmp_path, body, "lru_cache(4)", "lru_cache(5)")


def test_decorators_of_the_family_count(tmp_path):
    body = """
def twice(n):
    return lambda function: function

@family.cpu("a")
@twice(4)
def a(problem, tune, inputs, outputs):
    return lambda: None
"""
    assert changes(tmp_path, body, "twice(4)", "twice(5)")
    assert changes(tmp_path, body, "return lambda function: function", "return lambda function: (function)")


def test_a_constant_counts_by_its_value(tmp_path):
    body = "SIZES = [2**4, 'x']\n" + VARIANT.format(body="SIZES")
    assert not changes(tmp_path, body, "2**4", "16")
    assert changes(tmp_path, body, "2**4", "17")


def test_a_constant_read_from_a_file_counts(tmp_path):
    table = tmp_path / "table.txt"
    body = f"TABLE = Path({str(table)!r}).read_text()\n" + VARIANT.format(body="TABLE")
    table.write_text("1")
    before = texts(tmp_path, body)
    table.write_text("2")
    assert texts(tmp_path, body) != before


def test_a_long_constant_enters_by_its_hash(tmp_path):
    body = "TABLE = list(range(10000))\n" + VARIANT.format(body="TABLE")
    assert len(texts(tmp_path, body)["a"]) < 1000
    assert changes(tmp_path, body, "range(10000)", "range(10001)")


def test_sets_have_one_order_in_every_process(tmp_path):
    body = "NAMES = {'a', 'b', 'c', 'd', 'e', 'f'}\n" + VARIANT.format(body="NAMES")
    expected = texts(tmp_path, body)["a"]
    code = (
        "import sys; from pathlib import Path; from cuprof.families.origin import load_family;"
        "from cuprof.families.fingerprint import source_text; family = load_family(Path(sys.argv[1]));"
        "sys.stdout.write(source_text(family, family.variant('a')))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "sample")],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert done.stdout == expected


def test_sets_of_functions_and_paths_of_the_folder_are_the_same_in_every_place(tmp_path):
    body = """
def one():
    return 1

def two():
    return 2

USED = {one, two, Path(__file__).parent / "table"}
""" + VARIANT.format(body="USED")
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
    found = texts(tmp_path / "here", body)
    assert found == texts(tmp_path / "there", body)
    assert "{" not in found["a"].partition("# USED = ")[2]
    assert found["a"].count("# USED = set(table, one, two)") == 1
    assert changes(tmp_path, body, "return 2", "return 3")


PACKAGES = {
    "a ufunc": "from scipy.special import erf as used\n",
    "a type of Numba's": "from numba import float32 as used\n",
    "a constant of a module": "import datetime\nused = datetime.timezone\n",
    "a bound method": "from numpy.random import normal as used\n",
    "a module in a branch": "try:\n    import scipy.special as used\nexcept ImportError:\n    used = None\n",
}


@pytest.mark.parametrize("body", PACKAGES.values(), ids=PACKAGES)
def test_what_a_package_has_enters_by_its_name(tmp_path, body):
    body += VARIANT.format(body="used")
    assert not changes(tmp_path, body + "OTHER = 111\n", "111", "222")


@pytest.mark.parametrize(
    ("line", "package"), [("from scipy.special import erf", "scipy"), ("import numba as erf", "numba")]
)
def test_packages_that_are_used_are_listed(tmp_path, line, package):
    texts(tmp_path, f"{line}\n" + VARIANT.format(body="erf"))
    family = load_family(tmp_path / "sample")
    assert package in installed_modules(family.variant("a").make, tmp_path / "sample")


def test_a_function_that_stands_in_for_one_of_a_package_counts(tmp_path):
    body = "try:\n    from absent import step\nexcept ImportError:\n    def step():\n        return 1\n"
    assert changes(tmp_path, body + VARIANT.format(body="step()"), "return 1", "return 2")


STABLE = {
    "a named tuple": "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int\nX = P(111)\n",
    "a data class": "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass P:\n    a: int\nX = P(111)\n",
    "an enumeration": "import enum\nclass E(enum.Enum):\n    A = 111\nX = E.A\n",
    "a list that holds itself": "X = [111]\nX.append(X)\n",
    "a list of functions and itself": "def f():\n    return 111\nX = [f]\nX.append(X)\n",
    "an object with every attribute": (
        "class C:\n    a = 111\n    def __getattr__(self, name):\n        return lambda: name\nX = C()\n"
    ),
    "an object that raises": (
        "class C:\n    a = 111\n    def __getattr__(self, name):\n        raise RuntimeError(name)\nX = C()\n"
    ),
    "defaults of a comprehension": "X = [lambda a, b=i: a + b for i in range(111)]\n",
    "a callback of Numba's": "import numba\n@numba.cfunc('f8(f8)')\ndef X(a):\n    return a + 111\n",
    "a universal function of Numba's": "import numba\n@numba.vectorize(['f4(f4)'])\ndef X(a):\n    return a + 111\n",
    "a table by methods": (
        "import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return x\n"
        "    @f.register(int)\n    def _(self, x):\n        return 111\nX = C()\n"
    ),
    "a folder": "X = Path(__file__).parent / '111'\n",
}


@pytest.mark.parametrize("body", STABLE.values(), ids=STABLE)
def test_a_value_counts_alone_and_is_the_same_each_time(tmp_path, body):
    body += VARIANT.format(body="X") + "OTHER = 333\n"
    assert texts(tmp_path, body) == texts(tmp_path, body)
    assert changes(tmp_path, body, "111", "112")
    assert not changes(tmp_path, body, "333", "334")


def test_an_object_whose_value_says_nothing_makes_all_files_count(tmp_path):
    lock = "import threading\nLOCK = threading.Lock()\n" + VARIANT.format(body="LOCK")
    assert changes(tmp_path, lock + "OTHER = 111\n", "111", "222")


def test_an_object_counts_by_the_statement_that_makes_it(tmp_path):
    body = """
class Table:
    def __init__(self, size):
        self.size = size + 100

TABLE = Table(7)
""" + VARIANT.format(body="TABLE.size")
    assert changes(tmp_path, body, "Table(7)", "Table(8)")
    assert changes(tmp_path, body, "size + 100", "size + 200")


def test_the_branch_that_bound_a_name_counts_and_not_the_others(tmp_path):
    body = """
try:
    import absent_module as fast
except ImportError:
    fast = None

if fast is None:
    def add(x):
        return x + 1
else:
    add = fast.add
""" + VARIANT.format(body="add(1)")
    assert changes(tmp_path, body, "x + 1", "x + 2")
    assert changes(tmp_path, body, "import absent_module as fast", "import operator as fast")
    assert not changes(tmp_path, body, "absent_module", "absent_module_2")
    assert not changes(tmp_path, body, "fast.add", "fast.plus")


def test_closures_of_made_variants_count(tmp_path):
    body = """
def made(unroll, step):
    def make(problem, tune, inputs, outputs):
        return lambda: step(unroll)
    return make

def one(x):
    return x + 1

def two(x):
    return x + 20

family.cpu("a")(made(4, one))
family.cpu("b")(made(8, two))
"""
    found = texts(tmp_path, body)
    assert found["a"] != found["b"]
    assert changes(tmp_path, body, "made(4", "made(5")
    assert changes(tmp_path, body, "x + 1", "x + 3")
    assert not changes(tmp_path, body, "x + 20", "x + 30")
    assert not changes(tmp_path, body, "made(8", "made(9")


def test_defaults_of_made_variants_count(tmp_path):
    body = """
def made(chosen):
    def make(problem, tune, inputs, outputs, step=chosen):
        return lambda: step(1)
    return make

def one(x):
    return x + 1

family.cpu("a")(made(one))
"""
    assert changes(tmp_path, body, "x + 1", "x + 3")


def test_functions_that_call_each_other_end(tmp_path):
    body = VARIANT.format(body="even(4)") + (
        "def even(n):\n    return n == 0 or odd(n - 1)\n\ndef odd(n):\n    return n != 0 and even(n - 1)\n"
    )
    assert changes(tmp_path, body, "n != 0", "n > 0")


def test_partials_count_by_function_and_arguments(tmp_path):
    body = """
def scaled(problem, tune, inputs, outputs, scale):
    return lambda: 5 * scale

family.cpu("a")(functools.partial(scaled, scale=3))
"""
    assert changes(tmp_path, body, "scale=3", "scale=4")
    assert changes(tmp_path, body, "5 * scale", "6 * scale")


def test_callable_objects_count_by_class_and_attributes(tmp_path):
    body = """
class Maker:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, problem, tune, inputs, outputs):
        return lambda: 5 * self.scale

family.cpu("a")(Maker(3))
"""
    assert changes(tmp_path, body, "Maker(3)", "Maker(4)")
    assert changes(tmp_path, body, "5 * self", "6 * self")


def test_bound_methods_count_by_class_and_attributes(tmp_path):
    body = """
class Maker:
    def __init__(self, scale):
        self.scale = scale

    def make(self, problem, tune, inputs, outputs):
        return lambda: 5 * self.scale

family.cpu("a")(Maker(3).make)
"""
    assert changes(tmp_path, body, "Maker(3)", "Maker(4)")
    assert changes(tmp_path, body, "5 * self", "6 * self")


def test_numba_functions_count_by_their_python_text(tmp_path):
    pytest.importorskip("numba")
    body = """
import numba

def _add(x):
    return x + 1

add = numba.njit(fastmath=True)(_add)

@numba.njit
def multiply(x):
    return 2 * x
""" + VARIANT.format(body="add(multiply(1))")
    assert changes(tmp_path, body, "x + 1", "x + 2")
    assert changes(tmp_path, body, "fastmath=True", "fastmath=False")
    assert changes(tmp_path, body, "2 * x", "3 * x")
    assert changes(tmp_path, body, "@numba.njit\n", "@numba.njit(parallel=True)\n")


EAGER = {"body": "from . import steps\n" + VARIANT.format(body="steps.total(1)")}
LAZY = {
    "body": """
@family.cpu("a")
def a(problem, tune, inputs, outputs):
    from .steps import total
    return lambda: total(1)
"""
}
LAZY_MODULE = {"body": LAZY["body"].replace(".steps import total", ". import steps").replace("total(", "steps.total(")}
STAR = {"body": "from .steps import *\n" + VARIANT.format(body="total(1)")}
STEPS = """
from .deep import SCALE

def total(x):
    return add(x)

def add(x):
    return x + SCALE

def other():
    pass
"""


@pytest.mark.parametrize("way", [EAGER, LAZY, LAZY_MODULE, STAR], ids=["eager", "lazy", "lazy module", "star"])
def test_files_beside_family_py_count_as_far_as_they_are_used(tmp_path, way):
    files = {"steps": STEPS, "deep": "SCALE = 3\nOTHER = 4\n"}
    assert changes(tmp_path, way["body"], "x + SCALE", "x - SCALE", **files)
    assert changes(tmp_path, way["body"], "SCALE = 3", "SCALE = 5", **files)
    assert not changes(tmp_path, way["body"], "pass", "return 1", **files)
    assert not changes(tmp_path, way["body"], "OTHER = 4", "OTHER = 5", **files)


def test_a_module_passed_around_counts_as_a_whole(tmp_path):
    body = "from . import steps\n" + VARIANT.format(body="vars(steps)")
    assert changes(tmp_path, body, "pass", "return 1", steps="def other():\n    pass\n")


def test_a_variant_made_in_a_file_beside_family_py(tmp_path):
    body = "from . import steps\nsteps.register(family)\n"
    steps = "def register(family):" + VARIANT.format(body="K").replace("\n", "\n    ") + "\nK = 3\n"
    assert changes(tmp_path, body, "K = 3", "K = 4", steps=steps)


def test_whether_a_late_module_was_imported_changes_nothing():
    family = load_family(FAMILIES / "siblings")
    before = source_text(family, family.variant("lazy"))
    import numpy as np

    from cuprof.families import Point

    family.variant("lazy").make(Point(n=1), Point(), {"x": np.ones(1)}, {"y": np.ones(1)})
    assert source_text(family, family.variant("lazy")) == before
    assert "START = 0.0" in before
    assert "def unused" not in source_text(family, family.variant("eager"))


def test_installed_packages_enter_by_name_alone(tmp_path):
    text = texts(tmp_path, VARIANT.format(body="math.sqrt(2)"))["a"]
    assert text == "def a(problem, tune, inputs, outputs):\n    return lambda: math.sqrt(2)\n"
    body = "import cmath as m\n" + VARIANT.format(body="m.sqrt(2)")
    assert texts(tmp_path, body)["a"].endswith("m.sqrt(2)\n# m = cmath\n")
    assert changes(tmp_path, body, "cmath", "math")


def test_the_module_of_cuprof_that_a_name_comes_from_does_not_count(tmp_path):
    body = "from cuprof.families import Point\n" + VARIANT.format(body="Point()")
    assert not changes(tmp_path, body, "cuprof.families", "cuprof.core.point")
    assert changes(tmp_path, body, "import Point", "import Axis as Point")


def test_which_of_two_functions_of_one_name_is_used_counts(tmp_path):
    body = "from .one import step\nfrom .two import step as other\nUSED = (step, other, step)\n"
    files = {"one": "def step():\n    return 1\n", "two": "def step():\n    return 2\n"}
    assert changes(tmp_path, body + VARIANT.format(body="USED"), "other, step)", "other, other)", **files)


def test_what_an_import_inside_a_function_requires_is_found(tmp_path):
    body = VARIANT.format(body="compute()") + "\ndef compute():\n    import scipy.fft\n    from . import late\n"
    texts(tmp_path, body, late="import numba\n")
    family = load_family(tmp_path / "sample")
    assert installed_modules(family.variant("a").make, tmp_path / "sample") == ("numba", "scipy")


def test_contract_counts_its_four_functions_and_no_variant(tmp_path):
    shutil.copytree(FAMILIES / "vector", tmp_path / "vector")
    file = tmp_path / "vector" / "family.py"
    original = file.read_text()

    def contract(old: str, new: str) -> str:
        assert old in original
        file.write_text(original.replace(old, new))
        return contract_text(load_family(tmp_path / "vector"))

    before = contract("FACTOR = 2", "FACTOR = 2")
    assert contract("FACTOR = 2", "FACTOR = 3") != before
    assert contract("integers(-100", "integers(-50") != before
    assert contract("return Tolerance()", "return Tolerance(1.0)") != before
    assert contract("tune.chunk)", "2 * tune.chunk)") == before
    assert contract("8 * problem.n", "4 * problem.n") == before


def test_kernel_text_is_the_source_and_not_the_function(tmp_path):
    body = """
@family.cuda("a", source="a.cu")
def a(problem, tune):
    return Program(steps=(Launch("a", (1,), (32,), ()),))
"""
    folder = tmp_path / "sample"
    folder.mkdir()
    (folder / "family.py").write_text(HEAD + body)
    (folder / "a.cu").write_text('#include "b.cuh"\n')
    (folder / "b.cuh").write_text("__global__ void a() {}\n")
    family = load_family(folder)
    assert source_text(family, family.variant("a")).strip() == "__global__ void a() {}"
    (folder / "b.cuh").unlink()
    with pytest.raises(FamilyError, match=r'includes "b\.cuh"'):
        source_text(family, family.variant("a"))


def test_a_file_edited_after_its_import_is_refused(tmp_path):
    texts(tmp_path, VARIANT.format(body="1"))
    family = load_family(tmp_path / "sample")
    for edited in ("\n" + HEAD + VARIANT.format(body="1"), HEAD + VARIANT.format(body="2")):
        (tmp_path / "sample" / "family.py").write_text(edited)
        with pytest.raises(FamilyError, match="was changed since it was imported"):
            source_text(family, family.variant("a"))


def test_a_family_that_was_not_loaded_has_no_text():
    family = load_family(FAMILIES / "vector")
    family.folder = None
    with pytest.raises(FamilyError, match="has no folder"):
        source_text(family, family.variant("cpu_whole"))
    with pytest.raises(FamilyError, match="has no folder"):
        contract_text(family)


def test_hash_is_sha256():
    assert hash_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_data_that_are_nested_too_deep_make_all_files_count(tmp_path):
    body = "import os\nX = [os]\nfor _ in range(3000):\n    X = [X]\n" + VARIANT.format(body="X")
    assert changes(tmp_path, body + "OTHER = 111\n", "111", "222")
