"""Which builds a program needs, and what the forms of a kernel come to without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.backends.cuda.loading import Loaded, demangle, plain_name
from cuprof.builds import Built
from cuprof.builds.languages import list_builds
from cuprof.builds.native import NativeBuild
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import BuildError
from cuprof.core.point import Point
from cuprof.families import Family, Invoke, Launch, Program, Variant
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family

FORMS = Path(__file__).parents[1] / "data" / "families" / "forms"
PROBLEM = Point(n=4096)


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(FORMS)


def builds_of(family: Family, name: str, **changes: object) -> dict[str, object]:
    variant = family.variant(name)
    tunables = Point({each.name: each.default for each in variant.tunables})
    program = replace(variant.make(PROBLEM, tunables), **changes)  # type: ignore[type-var]
    return dict(list_builds(variant, program, source_text(family, variant), family.signature(PROBLEM), "sm_90"))


@pytest.mark.usefixtures("nvrtc")
def test_a_program_of_several_instantiations_is_one_build_that_names_them(family: Family) -> None:
    builds = builds_of(family, "template", steps=(Launch("scale<float, 128>", (1,)), Launch("scale<double,64>", (1,))))
    (build,) = {id(each): each for each in builds.values()}.values()
    assert isinstance(build, NvrtcBuild)
    built = build.run()
    assert built.symbols["scale<float, 128>"] == "_Z5scaleIfLi128EEvPKT_PS0_i"
    assert {*built.symbols.values()} <= {*built.kernels}


@pytest.mark.usefixtures("nvrtc")
def test_a_template_that_does_not_exist_is_a_build_error_that_names_it(family: Family) -> None:
    (build,) = builds_of(family, "template", steps=(Launch("scales<float>", (1,)),)).values()
    with pytest.raises(BuildError, match="scales"):
        build.run()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("name", ["namespace", "struct", "cluster", "overlapping", "texture_2d", "tma", "nested"])
def test_each_form_compiles_and_its_kernels_are_found_by_their_names(family: Family, name: str) -> None:
    for kernel, build in builds_of(family, name).items():
        built = build.run()  # type: ignore[attr-defined]
        assert isinstance(built, Built)
        names = {plain_name(demangle(symbol)) for symbol in built.kernels}
        assert plain_name(kernel) in names


def test_images_need_no_build(family: Family) -> None:
    assert [builds_of(family, name) for name in ("ptx", "cubin", "fatbin")] == [{}, {}, {}]


def test_what_nvcc_makes_follows_from_the_steps(family: Family) -> None:
    made = {}
    for name in ("nvcc", "host_launcher"):
        (build,) = builds_of(family, name).values()
        assert isinstance(build, NativeBuild)
        made[name] = build.product
    assert made == {"nvcc": "cubin", "host_launcher": "library"}


@pytest.mark.parametrize(
    ("steps", "compiler", "said"),
    [
        ((Invoke("run", ()),), "", r'compiler="nvcc"'),
        ((Invoke("run", ()), Launch("k", (1,))), "nvcc", "either launches kernels or invokes functions"),
        ((Launch("k", (1,)),), "g++", r"g\+\+ compiles no kernels"),
    ],
)
def test_steps_and_compilers_that_do_not_go_together(
    family: Family, steps: tuple[object, ...], compiler: str, said: str
) -> None:
    variant = Variant("v", "cuda", "kernel", lambda: None, "", source="k.cu", compiler=compiler)
    with pytest.raises(BuildError, match=said):
        list_builds(variant, Program(steps), "", family.signature(PROBLEM), "sm_90")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z5readyPKfPfi", "ready"),
        ("_ZN5forms5plainEPKfPfi", "forms::plain"),
        ("_Z5scaleIfLi256EEvPKT_PS0_i", "scale<float,256>"),
        ("_ZN1a1bI1cIiEEEvv", "a::b<c<int>>"),
        ("plain_c", "plain_c"),
        ("f", "f"),
    ],
)
def test_names_are_those_of_the_source(symbol: str, name: str) -> None:
    assert plain_name(demangle(symbol)) == name


def test_written_names_are_compared_without_spaces_and_the_global_scope() -> None:
    assert plain_name("::scale< float, 256 >") == plain_name("scale<float,256>")


def test_spills_of_an_image_are_known_only_where_there_is_no_local_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Loaded("k.cubin", modules=[(None, Built(b"", ""))])
    monkeypatch.setattr(Loaded, "function", lambda self, kernel: kernel)
    monkeypatch.setattr("cuprof.backends.cuda.loading._symbol", lambda function: function)
    assert (loaded.spill_bytes("k", 0), loaded.spill_bytes("k", 64)) == (0, None)
    of_triton = Loaded("k.py", modules=[(None, Built(b"", "", launch={"threads": 128}))])
    assert of_triton.spill_bytes("k", 64) == 64
