"""What has to be compiled for a program, by the language of its source."""

from __future__ import annotations

from pathlib import Path

from cuprof.builds.native import NativeBuild
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.builds.result import Build
from cuprof.builds.triton import TritonBuild
from cuprof.core.errors import BuildError
from cuprof.families import Program, Signature, Variant
from cuprof.families.sources import IMAGES, TRITON


def list_builds(variant: Variant, program: Program, text: str, signature: Signature, arch: str) -> dict[str, Build]:
    """Return kernel → the build that it is found in, "" for the one of a shared library; empty for ready images.

    Raises:
        BuildError: the source is in a language that its compiler, or the kind of its steps, is not for.
    """
    name = variant.source or variant.name
    ending = Path(name).suffix
    kernels = dict.fromkeys(launch.kernel for launch in program.launches)
    if ending in IMAGES:
        return {}
    if program.calls_host:
        if kernels:
            raise BuildError(f"{name}: a program either launches kernels or invokes functions; let these launch them")
        if not variant.compiler:
            raise BuildError(f'{name}: a source whose functions are invoked needs compiler="nvcc"')
        return {"": NativeBuild.of(variant, program, text, "library", arch)}
    if ending == TRITON:
        buffers, builds = {**signature.inputs, **signature.outputs, **program.scratch}, dict[str, Build]()
        for launch in program.launches:
            made = TritonBuild.of(text, launch, buffers, program.defines, arch)
            if builds.setdefault(launch.kernel, made) != made:
                twice = f"{launch.kernel} is launched with arguments of several types in one program"
                raise BuildError(f"{variant.source}: {twice}")
        return builds
    if variant.compiler:
        if variant.compiler != "nvcc":
            raise BuildError(f"{name}: {variant.compiler} compiles no kernels; leave compiler= out, or take nvcc")
        build: Build = NativeBuild.of(variant, program, text, "cubin", arch)
    else:
        expressions = tuple(kernel for kernel in kernels if not kernel.isidentifier())
        build = NvrtcBuild(text, name, arch, program.defines, program.options, expressions)
    return dict.fromkeys(kernels, build)
