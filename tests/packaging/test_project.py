from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.core.errors import ConfigError
from cuprof.core.project import BUNDLED, Project, bundled, checkout, find_project


def test_the_nearest_marker_upwards_is_the_project(project: Project) -> None:
    deep = project.root / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project(deep).root == project.root
    (deep / "cuprof.toml").touch()
    assert find_project(deep).root == deep


def test_without_a_marker_the_folder_itself_is(tmp_path: Path) -> None:
    assert find_project(tmp_path).root == tmp_path


def test_in_the_checkout_it_is_the_checkout() -> None:
    root = checkout()
    if root is None:
        pytest.skip("not a source checkout")
    assert find_project(root / "cuprof" / "cli").root == root
    assert find_project(root).folders("kernels") == (root / "kernels",)


def test_own_folders_come_first(project: Project) -> None:
    assert project.folders("kernels") == (bundled("kernels"),)
    (project.root / "kernels").mkdir()
    assert project.folders("kernels") == (project.root / "kernels", bundled("kernels"))
    for folders in (project.folders("conf"), project.folders("experiments"), project.folders("reports")):
        assert folders[-1] in [bundled(name) for name in BUNDLED]


def test_the_database_is_the_projects_own(project: Project) -> None:
    assert project.database_url == f"sqlite:///{project.root / 'db' / 'cuprof.sqlite'}"


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("sqlite:////abs/x.sqlite", "sqlite:////abs/x.sqlite"),
    ],
)
def test_the_marker_may_name_another_database(project: Project, written: str, url: str) -> None:
    (project.root / "cuprof.toml").write_text(f'database = "{written}"\n')
    assert find_project(project.root).database_url == url


def test_a_relative_database_is_relative_to_the_project(project: Project) -> None:
    (project.root / "cuprof.toml").write_text('database = "sqlite:///db/other.sqlite"\n')
    assert find_project(project.root).database_url == f"sqlite:///{project.root / 'db' / 'other.sqlite'}"


@pytest.mark.parametrize("text", [b"database = ", b"databse = 'x'", b"database = 3", b"database = '\xff'"])
def test_a_bad_marker_is_named(project: Project, text: bytes) -> None:
    (project.root / "cuprof.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=r"cuprof\.toml"):
        find_project(project.root)


def test_every_bundled_folder_is_there() -> None:
    for name in BUNDLED:
        assert bundled(name).is_dir()
    with pytest.raises(ValueError, match="no bundled folder"):
        bundled("kernel")
