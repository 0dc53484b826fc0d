"""One call of a program: by its entry function in a child of this process, or as a process of its own."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import resource
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from support.installed import our_program

ENTRIES = {
    "amd-ctk": "amd_ctk.cli",
    "amd-gpu-tracker": "amd_gpu_tracker.cli",
    "amd-container-runtime": "amd_container_runtime.shim",
}
PACKAGES = ("amdgpu_discovery", "amd_device_spec", "amd_gpu_tracker", "amd_container_runtime", "amd_ctk")
# Of other people; Typer's comes and goes with its releases.
IMPORTED_LATER = ("tomlkit", "ruamel.yaml", "jsonschema", "filelock", "typer._adapters", "difflib", "tarfile", "gzip")
# Seconds of a processor; a program that needs more is ended.
MOST_CPU = 5


class Outcome(NamedTuple):
    """How a call ended: exit code (negative for a signal), seconds of a processor, peak memory in MiB, both streams."""

    code: int
    cpu: float
    memory: float
    output: str


# A program, its words and its environment.
Run = Callable[[str, Sequence[str], Mapping[str, str]], Outcome]


def import_programs() -> None:
    """Import what calls will need: once, before children are made."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            # Programs run when they are imported, and libarchive need not be installed.
            if not module.name.endswith(("__main__", ".hook", "_libarchive")):
                importlib.import_module(module.name)
    for name in IMPORTED_LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def call_entry(program: str, words: Sequence[str], environment: Mapping[str, str], stdin: bytes = b"") -> Outcome:
    """Call a program's entry function in a child of this process."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        child = os.fork()
        if child == 0:
            _become(program, words, environment, given.fileno(), output.fileno())
        _, status, usage = os.wait4(child, 0)
        return _outcome(os.waitstatus_to_exitcode(status), usage, output)


def call_process(program: str, words: Sequence[str], environment: Mapping[str, str], stdin: bytes = b"") -> Outcome:
    """Run a program as its users do."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        command = [our_program(program), *words]
        process = subprocess.Popen(command, env=dict(environment), stdin=given, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return _outcome(process.returncode, usage, output)


def _become(program: str, words: Sequence[str], environment: Mapping[str, str], stdin: int, output: int) -> None:
    """Be the program until its end; this does not return."""
    code = 1
    try:
        for stream, place in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(stream, place)
        sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU, MOST_CPU))
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [os.fspath(our_program(program)), *words]
        importlib.import_module(ENTRIES[program]).main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _outcome(code: int, usage: resource.struct_rusage, output: tempfile._TemporaryFileWrapper[bytes]) -> Outcome:
    output.seek(0)
    text = output.read(1 << 20).decode("utf-8", "replace")
    return Outcome(code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)
