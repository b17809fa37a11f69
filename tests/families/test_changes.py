"""What a variant reaches other than by naming it is part of its text; in a plain family nothing else is."""

import pytest
from family_texts import VARIANT, changes, texts

DOUBLER = "\ndef doubler(x):\n    return 2 * x\n"
TABLE = VARIANT.format(body='TABLE["doubler"](1)')
REGISTER = "TABLE = {}\n\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n"
ALIASED = REGISTER.replace("    TABLE[f", "    table = TABLE\n    table[f")
PASSED = "TABLE = {}\n\ndef register(table, f):\n    table[f.__name__] = f\n    return f\n"
BASE = "class Base:\n    def run(self, x):\n        return x\n"
CHILD = "\nclass Child(Base):\n    def run(self, x):\n        return 2 * x\n"
HOOK = "\n    def __init_subclass__(cls):\n        {body}\n"
NS = "class NS:\n    pass\n"
WEIGHTS = "import numpy as np\n\nWEIGHTS = np.array([2.0])\n"
FN = VARIANT.format(body="NS.fn(1)")
W = VARIANT.format(body="WEIGHTS")
ROWS = VARIANT.format(body="[f(1) for f in ROWS]")

CHANGES = {
    "decorator, dict": (REGISTER + "\n@register" + DOUBLER + TABLE, "2 * x"),
    "decorator, list": (
        "ROWS = []\n\ndef register(f):\n    ROWS.append(f)\n    return f\n\n@register" + DOUBLER + ROWS,
        "2 * x",
    ),
    "decorator with arguments": (
        "ROWS = []\n\ndef register(n):\n    def keep(f):\n        ROWS.append(f)\n        return f\n    return keep\n"
        "\n@register(1)" + DOUBLER + ROWS,
        "2 * x",
    ),
    "method as decorator": ("ROWS = []\n\n@ROWS.append" + DOUBLER + ROWS, "2 * x"),
    "decorator, other name": (ALIASED + "\n@register" + DOUBLER + TABLE, "2 * x"),
    "call": (REGISTER + DOUBLER + "\nregister(doubler)\n" + TABLE, "2 * x"),
    "call in a loop": (REGISTER + DOUBLER + "\nfor f in [doubler]:\n    register(f)\n" + TABLE, "2 * x"),
    "call, table as argument": (PASSED + DOUBLER + "\nregister(TABLE, doubler)\n" + TABLE, "2 * x"),
    "in the body of a class": (
        "TABLE = {}\n" + DOUBLER + "\nclass Filled:\n    TABLE['doubler'] = doubler\n" + TABLE,
        "2 * x",
    ),
    "handed to a decorator": (PASSED + "\n@functools.partial(register, TABLE)" + DOUBLER + TABLE, "2 * x"),
    "in a with block": (
        "import contextlib\nTABLE = {}\n"
        + DOUBLER
        + "\nwith contextlib.suppress(KeyError):\n    TABLE['doubler'] = doubler\n"
        + TABLE,
        "2 * x",
    ),
    "partial": (
        PASSED + "\nkeep = functools.partial(register, TABLE)\n\n@keep" + DOUBLER + TABLE,
        "2 * x",
    ),
    "lambda": ("TABLE = {}\nkeep = lambda f: TABLE.update(doubler=f)\n\n@keep" + DOUBLER + TABLE, "2 * x"),
    "handed out by a function": (
        "TABLE = {}\n\ndef table():\n    return TABLE\n" + DOUBLER + "\ntable().update(doubler=doubler)\n" + TABLE,
        "2 * x",
    ),
    "object as decorator": (
        "class Registry:\n    def __init__(self):\n        self.found = {}\n"
        "    def __call__(self, f):\n        self.found[f.__name__] = f\n        return f\n"
        "\nREGISTRY = Registry()\n\n@REGISTRY" + DOUBLER + VARIANT.format(body='REGISTRY.found["doubler"](1)'),
        "2 * x",
    ),
    "single dispatch": (
        "@functools.singledispatch\ndef gf(x):\n    return x\n\n@gf.register(int)"
        + DOUBLER
        + VARIANT.format(body="gf(1)"),
        "2 * x",
    ),
    "subclasses": (BASE + CHILD + VARIANT.format(body="[k().run(1) for k in Base.__subclasses__()]"), "2 * x"),
    "__init_subclass__, list": (
        "KINDS = []\n\n"
        + BASE
        + HOOK.format(body="KINDS.append(cls)")
        + CHILD
        + VARIANT.format(body="KINDS[0]().run(1)"),
        "2 * x",
    ),
    "__init_subclass__, attribute": (
        BASE
        + "    kinds = []\n"
        + HOOK.format(body="cls.kinds.append(cls)")
        + CHILD
        + VARIANT.format(body="Base.kinds[0]().run(1)"),
        "2 * x",
    ),
    "metaclass": (
        "class Meta(type):\n    kinds = []\n    def __init__(cls, *rest):\n        Meta.kinds.append(cls)\n\n"
        + BASE.replace("Base", "Base(metaclass=Meta)")
        + CHILD
        + VARIANT.format(body="Meta.kinds[1]().run(1)"),
        "2 * x",
    ),
    "static method attached": (NS + DOUBLER + "\nNS.fn = staticmethod(doubler)\n" + FN, "2 * x"),
    "setattr": (NS + DOUBLER + '\nsetattr(NS, "fn", staticmethod(doubler))\n' + FN, "2 * x"),
    "setattr in a function": (
        NS + '\ndef attach(f):\n    setattr(NS, "fn", staticmethod(f))\n\n@attach' + DOUBLER + FN,
        "2 * x",
    ),
    "attached under another name": (NS + DOUBLER + "\nOTHER = NS\nOTHER.fn = staticmethod(doubler)\n" + FN, "2 * x"),
    "a method replaced": (BASE + DOUBLER + "\nBase.run = doubler\n" + VARIANT.format(body="Base().run()"), "2 * x"),
    "a method replaced by a builtin": (
        BASE + "\nBase.run = abs if 3.5 < 4 else max\n" + VARIANT.format(body="Base().run(1)"),
        "3.5",
    ),
    "a property replaced": (
        "class P:\n    @property\n    def run(self):\n        return 1\n"
        + DOUBLER
        + "\nP.run = property(doubler)\n"
        + VARIANT.format(body="P().run"),
        "2 * x",
    ),
    "a hidden attribute attached": (NS + DOUBLER + "\nNS._fn = staticmethod(doubler)\n" + FN, "2 * x"),
    "an attribute of a function": (
        "def holder():\n    pass\n" + DOUBLER + "\nholder.run = doubler\n" + VARIANT.format(body="holder.run(1)"),
        "2 * x",
    ),
    "an attribute of a function, data": (
        "def holder():\n    pass\n\nholder.scale = 3.5\n" + VARIANT.format(body="holder.scale"),
        "3.5",
    ),
    "element": (WEIGHTS + "WEIGHTS[0] = 3.5\n" + W, "3.5"),
    "element in a branch": (WEIGHTS + "if True:\n    WEIGHTS[0] = 3.5\n" + W, "3.5"),
    "element of a view": (WEIGHTS + "VIEW = WEIGHTS[:]\nVIEW[0] = 3.5\n" + W, "3.5"),
    "augmented": (WEIGHTS + "WEIGHTS *= 3.5\n" + W, "3.5"),
    "np.copyto": (WEIGHTS + "np.copyto(WEIGHTS, 3.5)\n" + W, "3.5"),
    "out=": (WEIGHTS + "np.multiply(3.5, WEIGHTS, out=WEIGHTS)\n" + W, "3.5"),
    "method": (WEIGHTS + "WEIGHTS.fill(3.5)\n" + W, "3.5"),
    "filled by a function": (WEIGHTS + "\ndef fill(x):\n    x[:] = 3.5\n\nfill(WEIGHTS)\n" + W, "3.5"),
    "global": (
        WEIGHTS
        + "\ndef init():\n    global WEIGHTS, MORE\n    MORE = np.array([3.5])\n\ninit()\n"
        + W.replace("WEIGHTS", "MORE"),
        "3.5",
    ),
    "update": (
        'CFG = {"f": abs}\n' + DOUBLER + "\nCFG.update(f=doubler)\n" + VARIANT.format(body='CFG["f"](1)'),
        "2 * x",
    ),
    "append": ("ROWS = [abs]\n" + DOUBLER + "\nROWS.append(doubler)\n" + ROWS, "2 * x"),
    "array in a closure": (
        WEIGHTS + '\ndef make(weights):\n    @family.cpu("a")\n    def a(problem, tune, inputs, outputs):\n'
        "        return lambda: weights\n\nmake(np.array([3.5]))\n",
        "3.5",
    ),
    "array in a closure, registered by a call": (
        WEIGHTS + "\ndef make(weights):\n    return lambda *rest: lambda: weights\n"
        '\nfamily.cpu("a")(make(np.array([3.5])))\n',
        "3.5",
    ),
    "functions in a closure": (
        DOUBLER + '\ndef make(steps):\n    @family.cpu("a")\n    def a(problem, tune, inputs, outputs):\n'
        "        return lambda: steps[0](1)\n\nmake([doubler])\n",
        "2 * x",
    ),
}


@pytest.mark.parametrize(("body", "edited"), CHANGES.values(), ids=CHANGES)
def test_what_changes_a_name_counts(tmp_path, body, edited):
    assert changes(tmp_path, body, edited, edited.replace("2", "7").replace("3.5", "4.5"))


OPS = "from .ops import TABLE\n" + TABLE
IN_FILES = {
    "handed out by a function": (
        OPS,
        {"ops": "TABLE = {}\n\ndef table():\n    return TABLE\n" + DOUBLER + '\ntable()["doubler"] = doubler\n'},
    ),
    "method of what is handed out": (
        OPS,
        {"ops": "TABLE = {}\n\ndef table():\n    return TABLE\n" + DOUBLER + "\ntable().update(doubler=doubler)\n"},
    ),
    "beside": (OPS, {"ops": REGISTER + "\n@register" + DOUBLER}),
    "in another file": (
        "from . import more\n" + OPS,
        {"ops": REGISTER, "more": "from .ops import register\n\n@register" + DOUBLER},
    ),
    "from family.py": (
        "from . import ops\n" + DOUBLER + '\nops.TABLE["doubler"] = doubler\n' + TABLE.replace("TABLE", "ops.TABLE"),
        {"ops": REGISTER},
    ),
    "replaced in a module": (
        "from . import ops\n" + DOUBLER + "\nops.fn = doubler\n" + VARIANT.format(body="ops.fn(1)"),
        {"ops": "def fn(x):\n    return x\n"},
    ),
    "set in a module": (
        "from . import ops\n" + DOUBLER + '\nsetattr(ops, "fn", doubler)\n' + VARIANT.format(body="ops.fn(1)"),
        {"ops": "def fn(x):\n    return x\n"},
    ),
    "star": ("from .ops import *\n\n@register" + DOUBLER + TABLE, {"ops": REGISTER}),
    "imported in a function": (
        "def load():\n    from .ops import TABLE\n    TABLE['doubler'] = doubler\n" + DOUBLER + "\nload()\n" + OPS,
        {"ops": REGISTER},
    ),
    "a module in a closure": (
        "from . import ops\n\ndef make(module):\n"
        '    @family.cpu("a")\n    def a(problem, tune, inputs, outputs):\n        return lambda: module.doubler(1)\n'
        "\nmake(ops)\n",
        {"ops": DOUBLER},
    ),
}


@pytest.mark.parametrize(("body", "files"), IN_FILES.values(), ids=IN_FILES)
def test_what_changes_a_name_of_another_file_counts(tmp_path, body, files):
    assert changes(tmp_path, body, "2 * x", "7 * x", **files)


def test_names_of_files_do_not_order_the_changes(tmp_path):
    one = "from .ops import TABLE\nTABLE['doubler'] = abs\n"
    two = "from .ops import TABLE\nTABLE['other'] = abs\n"
    assert texts(tmp_path, OPS, ops=REGISTER, b=one, c=two) == texts(tmp_path, OPS, ops=REGISTER, c=one, b=two)


PLAIN = {
    "an object of the same class": (
        "class Box:\n    def __init__(self, size):\n        self.size = size\n\nA = Box(3)\nB = Box(111)\n"
        + VARIANT.format(body="A.size")
    ),
    "another array": WEIGHTS + "OTHER = np.array([111.0])\n" + W,
    "a class above": BASE + CHILD.replace("2", "111") + VARIANT.format(body="Base().run(1)"),
    "a function that is not called": REGISTER + "\ndef later():\n    TABLE[111] = 1\n" + TABLE,
    "a function in another table": DOUBLER + "MORE = {'x': (doubler, 111)}\n" + VARIANT.format(body="doubler(1)"),
    "imports that may fail": "try:\n    import numpy as np\nexcept ImportError:\n    np = None\n\n"
    "@np.vectorize\ndef other(x):\n    return 111\n" + VARIANT.format(body="1"),
    "a branch": "if family is None:\n    A = 111\nelse:\n    A, B = 4, 111\n" + VARIANT.format(body="1"),
    "a main block": "if __name__ == '__main__':\n    print(111)\n" + VARIANT.format(body="1"),
    "a class": "import dataclasses\n\n@dataclasses.dataclass(frozen=True)\n"
    "class Other:\n    'Other.'\n    a: int = 111\n"
    "    @property\n    def b(self):\n        return 111\n    @b.setter\n    def b(self, value):\n        pass\n"
    + VARIANT.format(body="1"),
    "a variant registered by a call": 'family.cpu("b")(lambda *rest: 111)\n' + VARIANT.format(body="1"),
    "a function with a constant": (
        WEIGHTS
        + "\ndef scale(x):\n    return x.sum() * WEIGHTS\n\ndef other(x):\n    return 111\n\nSTEPS = (scale, other)\n"
        + W
    ),
    "what is computed from it": WEIGHTS + "NORM = np.linalg.norm(WEIGHTS) + 111\n" + W,
    "a variant": REGISTER
    + '\n@family.cpu("b")\ndef b(problem, tune, inputs, outputs):\n    return lambda: TABLE[111]\n'
    + TABLE,
}


@pytest.mark.parametrize("body", PLAIN.values(), ids=PLAIN)
def test_what_only_uses_a_name_does_not_count(tmp_path, body):
    assert not changes(tmp_path, body, "111", "222")
