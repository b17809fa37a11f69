"""Where code that counts looks names up dynamically, all Python files of the family count."""

import importlib
import runpy
import sys

import pytest
from family_texts import VARIANT, changes, texts

from cuprof.families.fingerprint import function_text, source_text
from cuprof.families.origin import load_family

HELPER = {"helper": "def gf(x):\n    return 2 * x\n"}
GF = "\ndef gf(x):\n    return 2 * x\n"

FILES = {
    "import_module": "import importlib\n"
    + VARIANT.format(body='importlib.import_module(".helper", __package__).gf(1)'),
    "import_module by name": (
        "from importlib import import_module as load\n" + VARIANT.format(body='load(".helper", __package__).gf(1)')
    ),
    "import_module at the top": (
        "import importlib\nhelper = importlib.import_module('.helper', __package__)\n"
        + VARIANT.format(body="helper.gf(1)")
    ),
    "__import__": VARIANT.format(body='__import__("helper", globals(), None, ["gf"], 1).gf(1)'),
    "__import__ by name": VARIANT.format(body='__import__(__package__ + ".helper").gf(1)'),
    "imported for its effect": (
        "import importlib\n\ndef load(name):\n    return importlib.import_module(name, __package__)\n"
        + VARIANT.format(body='load(".helper").gf(1)')
    ),
    "getattr of a module": "from . import helper\n" + VARIANT.format(body='getattr(helper, "g" + tune.rest)(1)'),
    "vars of a module": "from . import helper\n" + VARIANT.format(body='vars(helper)["gf"](1)'),
    "a namespace's names": "from . import helper\n" + VARIANT.format(body='helper.__dict__["gf"](1)'),
}

NAMES = {
    "subclasses by name": (
        "class Base:\n    pass\n\n"
        + VARIANT.format(body='getattr(Base, "__subclasses__")()[0].run(1)')
        + "\nclass Child(Base):\n    run = lambda self, x: gf(x)\n"
    ),
    "globals": VARIANT.format(body='globals()["gf"](1)'),
    "vars": VARIANT.format(body='vars()["gf"](1)'),
    "eval": VARIANT.format(body='eval("gf(1)")'),
    "exec": VARIANT.format(body='exec("gf(1)")'),
    "eval under another name": "run = eval\n" + VARIANT.format(body='run("gf(1)")'),
    "a name that no statement binds": (
        "def init():\n    global made\n    made = gf\n\nSTATE = init()\n" + VARIANT.format(body="made(1)")
    ),
    "another variant": VARIANT.format(body='family.variant("b").make(0, 0, 0, 0)')
    + '\n@family.cpu("b")\ndef b(*rest):\n    return gf(1)\n',
    "builtins": "import builtins\n" + VARIANT.format(body='builtins.eval("gf(1)")'),
    "sys.modules": "import sys\n" + VARIANT.format(body='getattr(sys.modules[__name__], "gf")(1)'),
    "modules of sys": "from sys import modules\n" + VARIANT.format(body='getattr(modules[__name__], "gf")(1)'),
    "in a function it uses": VARIANT.format(body="find('gf')(1)") + "\ndef find(name):\n    return globals()[name]\n",
    "globals set": 'globals()["made"] = lambda x: gf(x)\n' + VARIANT.format(body="made(1)"),
    "exec at the top": 'exec("made = gf")\n' + VARIANT.format(body="made(1)"),
    "a function's globals": VARIANT.format(body='a.__globals__["gf"](1)'),
}


def test_a_name_that_a_module_makes_when_asked_counts(tmp_path):
    body = "from .helper import made\n" + VARIANT.format(body="made(1)")
    helper = HELPER["helper"] + "\ndef __getattr__(name):\n    return gf\n"
    assert changes(tmp_path, body, "2 * x", "7 * x", helper=helper)


@pytest.mark.parametrize("body", FILES.values(), ids=FILES)
def test_a_file_found_at_run_time_counts(tmp_path, body):
    assert changes(tmp_path, body, "2 * x", "7 * x", **HELPER)


@pytest.mark.parametrize("body", NAMES.values(), ids=NAMES)
def test_a_name_found_at_run_time_counts(tmp_path, body):
    late = body.startswith(("globals", "exec", "def init"))
    assert changes(tmp_path, GF + body if late else body + GF, "2 * x", "7 * x")


@pytest.mark.parametrize("body", [VARIANT.format(body='globals()["gf"](1)'), "print()\n" + VARIANT.format(body="1")])
def test_a_renamed_file_changes_nothing_of_a_whole_folder(tmp_path, body):
    one, two = "def one():\n    pass\n", "def two():\n    pass\n"
    assert texts(tmp_path, body, b=one, c=two) == texts(tmp_path, body, c=one, d=two)


def test_hidden_folders_are_no_part_of_a_whole_folder(tmp_path):
    body = VARIANT.format(body="globals()")
    before = texts(tmp_path, body)["a"]
    family = load_family(tmp_path / "sample")
    for folder in (".venv", "__pycache__", "deep"):
        (tmp_path / "sample" / folder).mkdir(exist_ok=True)
        (tmp_path / "sample" / folder / "more.py").write_text("MORE = 1\n")
    after = source_text(family, family.variant("a"))
    assert after != before
    assert after.count("MORE = 1") == 1


INSTALLED = {
    "import_module": "import importlib\n" + VARIANT.format(body='importlib.import_module("math").pi'),
    "find_spec": "import importlib.util\n" + VARIANT.format(body='importlib.util.find_spec("math")'),
    "getattr": VARIANT.format(body='getattr(math, "p" + "i")'),
    "a method named eval": VARIANT.format(body="inputs.eval()"),
    "a local name": VARIANT.format(body="[vars for vars in inputs]"),
    "in another variant": (
        VARIANT.format(body="1") + VARIANT.format(body="globals()").replace('"a"', '"b"').replace("def a", "def b")
    ),
}


@pytest.mark.parametrize("body", INSTALLED.values(), ids=INSTALLED)
def test_a_lookup_that_reaches_no_file_of_the_family_is_plain(tmp_path, body):
    assert not changes(tmp_path, body + GF, "2 * x", "7 * x")


def test_a_file_too_deep_to_read_makes_all_files_count_where_one_is_imported_late(tmp_path):
    deep = "x = " + " + ".join(["1"] * 20_000) + "\n"
    late = VARIANT.format(body="0").replace("    return", "    from .helper import gf\n    return")
    assert deep not in texts(tmp_path, VARIANT.format(body="gf(1)") + GF, deep=deep)["a"]
    assert deep in texts(tmp_path, late, deep=deep, **HELPER)["a"]


@pytest.mark.parametrize(
    "change",
    [
        "from . import ops\nops.TABLE['f'] = 111\n",
        "from .ops import TABLE\n\n@TABLE.update\ndef f():\n    return 111\n",
    ],
)
def test_a_file_that_may_change_one_imported_late_counts(tmp_path, change):
    body = VARIANT.format(body="TABLE").replace("    return", "    from .ops import TABLE\n    return")
    assert changes(tmp_path, body, "111", "222", ops="TABLE = {}\n", other=change)


def test_a_script_s_main_block_changes_nothing_that_is_imported_late(tmp_path):
    body = "if __name__ == '__main__':\n    print(111)\n"
    body += VARIANT.format(body="gf(1)").replace("    return", "    from .helper import gf\n    return")
    assert not changes(tmp_path, body, "111", "222", **HELPER)


def test_files_of_a_linked_folder_count(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "__init__.py").touch()
    (real / "circle").symlink_to(real)
    folder = tmp_path / "sample"
    found = []
    for factor in (2, 3):
        texts(tmp_path, VARIANT.format(body="0"))
        (folder / "shared").symlink_to(real)
        (real / "mod.py").write_text(f"def helper(x):\n    return {factor} * x\n")
        family = (folder / "family.py").read_text()
        (folder / "family.py").write_text(
            "from .shared.mod import helper\n" + family.replace("lambda: 0", "lambda: helper(1)")
        )
        loaded = load_family(folder)
        found.append(source_text(loaded, loaded.variant("a")))
    assert found[0] != found[1]


MADE = {
    "by exec": "space = {'scale': scale}\nexec((HERE / 'kern.py').read_text(), space)\nb = space['b']\n",
    "by exec in the script": "exec((HERE / 'kern.py').read_text())\n",
    "by run_path": "import runpy\nb = runpy.run_path(str(HERE / 'kern.py'))['b']\n",
    "by a module's path": (
        "from importlib.util import module_from_spec, spec_from_file_location\n"
        "spec = spec_from_file_location('elsewhere', HERE / 'kern.py')\nkern = module_from_spec(spec)\n"
        "spec.loader.exec_module(kern)\ndef b(x):\n    return kern.b(x)\n"
    ),
    "by a computed name": "from importlib import import_module as load\nb = load('ke' + 'rn').b\n",
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_function_that_no_import_names_counts_with_all_that_it_uses(tmp_path, monkeypatch, made):
    script, other = tmp_path / "script.py", tmp_path / "kern.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    texts = []
    for times, factor in ((2, 3), (2, 3), (5, 3), (2, 7)):
        head = f"from pathlib import Path\nHERE = Path({str(tmp_path)!r})\ndef scale(x):\n    return {factor} * x\n"
        script.write_text(head + made)
        other.write_text(f"TIMES = {times}\ndef helper(x):\n    return [x * TIMES for _ in 'ab']\n")
        with other.open("a") as more:
            more.write(f"def b(x):\n    return (lambda y: helper(y) + [{factor}])(x)\n")
        monkeypatch.delitem(sys.modules, "kern", raising=False)
        importlib.invalidate_caches()
        texts.append(function_text(runpy.run_path(str(script))["b"], script))
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
