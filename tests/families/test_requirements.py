import subprocess
import sys

from cuprof.families.toolchain import check_requirements, get_version, is_installed


def test_installed_modules_are_found_without_import():
    code = (
        "import sys; from cuprof.families.toolchain import is_installed;"
        "print(is_installed('xml.dom.minidom'), is_installed('xml.nothing'), is_installed('json.nothing.more'),"
        " 'xml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False"]


def test_absent_modules_come_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    unavailable = check_requirements(("numpy", "cv2", "absent_module"))
    assert unavailable is not None
    assert unavailable.reason == "Python modules cv2, absent_module are not installed"
    assert unavailable.remedy == "pip install opencv-python-headless; pip install absent_module"


def test_nothing_missing():
    assert check_requirements(()) is None
    assert check_requirements(("numpy",)) is None


def test_an_absent_module_has_the_version_none():
    import numpy

    assert get_version("numpy") == numpy.__version__
    assert get_version("absent_module") == "none"


def test_a_module_of_a_distribution_with_another_name():
    import yaml

    assert get_version("yaml") == yaml.__version__


def test_a_name_that_several_distributions_share(monkeypatch):
    shared = {"shared": ["numpy", "hypothesis", "numpy"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: shared)
    monkeypatch.setitem(sys.modules, "shared.part", sys)
    import hypothesis
    import numpy

    get_version.cache_clear()
    assert get_version("shared.part") == f"hypothesis {hypothesis.__version__}, numpy {numpy.__version__}"


def test_a_module_without_distribution():
    assert is_installed("json")
    assert get_version("json") == "unknown"
