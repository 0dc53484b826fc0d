"""Imitate another processor for programs that read the available instructions."""

from __future__ import annotations

from pathlib import Path

V3 = (
    "fpu cx8 cmov mmx fxsr sse sse2 syscall pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt xsave avx f16c lahf_lm abm"
    " bmi1 avx2 bmi2"
)
FLAGS = {"x86-64-v3": V3, "x86-64-v4": f"{V3} avx512f avx512dq avx512cd avx512bw avx512vl"}
# The file is mounted in a mount namespace of the program and its children.
WITH_PROCESSOR = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind "{cpuinfo}" /proc/cpuinfo && exec "{program}" "$@"' sh "$@"
"""


def with_processor(level: str, program: Path, directory: Path) -> Path:
    """Write a program in `directory` that runs another one with a processor of this level; return it."""
    cpuinfo = directory / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {FLAGS[level]}\nbugs\t\t:\n")
    wrapper = directory / program.name
    wrapper.write_text(WITH_PROCESSOR.format(cpuinfo=cpuinfo, program=program))
    wrapper.chmod(0o755)
    return wrapper
