"""The OCI hooks that tell the tracker when a container starts and when it has ended."""

from __future__ import annotations

import sys

import amdgpu_discovery
from amd_gpu_tracker.book.state import State
from amdgpu_discovery.choices.oci_spec import REQUIREMENT_PREFIX
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.files import absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

PROGRAM = "amd_gpu_tracker/hook.py"
# Runs before the hook at a container's end. It has its own path: engines identify hooks by path and words alone.
RELEASE_SCRIPT = "amd_gpu_tracker/release.sh"
SHELL = "/bin/sh"
# Names in the packages' own directory, beside the programs that do not move.
LIBRARY = "amd-container-toolkit"
GENERATIONS = "generations"
CLAIM = "claim"
RELEASE = "release"
CHECK = "check"
# Longer than a hook waits for the tracker's lock. Without a timeout, an engine would wait forever.
HOOK_SECONDS = 120
# What to do with containers whose image requires other GPUs. Without this option, they are refused.
IMAGE_REQUIREMENTS = "--image-requirements"
ENFORCE = "enforce"
# The setting vram-limit is "required".
REQUIRE_LIMIT = "--require-limit"
# What asks for a limit, and which only the AMD runtime reads.
ASKS_LIMIT = "AMD_VRAM="
IGNORE = "ignore"
# Runtimes run the hook in the bundle, and most images have no requirements. So grep finds the prefix, and Python does
# the rest. For containers with their own user namespace, crun has already changed from the bundle to /.
FIND_REQUIREMENTS = (
    f'PATH=/usr/bin:/bin; test . -ef / || grep -qs {REQUIREMENT_PREFIX} config.json; test $? = 1 || exec "$@"'
)


def claim_hook(host: Host, *, image_requirements: str = ENFORCE, require_limit: bool = False) -> dict[str, Any]:
    """Return the `createRuntime` hook that claims the GPUs whose nodes a container was given.

    `image_requirements` is the setting of that name: `enforce`, `warn` or `ignore`. With `require_limit`, it refuses a
    container that shares a GPU.
    """
    more = [] if image_requirements == ENFORCE else [IMAGE_REQUIREMENTS, image_requirements]
    return _hook(*_python_words(host, CLAIM, *more, *[REQUIRE_LIMIT] * require_limit))


def requirements_hook(host: Host, *, image_requirements: str = ENFORCE) -> dict[str, Any]:
    """Return the `createRuntime` hook that checks the requirements of an image when nothing is tracked."""
    more = [] if image_requirements == ENFORCE else [IMAGE_REQUIREMENTS, image_requirements]
    return _hook(SHELL, "-c", FIND_REQUIREMENTS, "amd-image-requirements", *_python_words(host, CHECK, *more))


def refusing_hook(host: Host) -> dict[str, Any]:
    """Return the `createRuntime` hook that refuses containers when nothing is tracked and all need a limit."""
    return _hook(*_python_words(host, CHECK, REQUIRE_LIMIT))


def release_hook(host: Host, run_directory: str = "") -> dict[str, Any]:
    """Return the `poststop` hook that gives back the GPUs of a container.

    A rootless run passes the directory of its leases, because the hook itself may get no environment.
    """
    options = ["--run-directory", run_directory] if run_directory else []
    python = _python_words(host, RELEASE, *options)
    leases = State(host, run_directory).leases_directory
    return _hook(SHELL, f"{_import_roots()[0]}/{RELEASE_SCRIPT}", leases, *python)


def is_claim_hook(hook: object) -> bool:
    """Return whether a hook of a spec is `claim_hook`, of this installation or another."""
    return _is_hook(hook, CLAIM)


def is_check_hook(hook: object) -> bool:
    """Return whether a hook of a spec is `requirements_hook`, of this installation or another."""
    return _is_hook(hook, CHECK)


def requires_limit(hook: object) -> bool:
    """Return whether a hook of a spec refuses containers that share a GPU, because CDI sets no limit."""
    return any(_is_hook(hook, command) for command in (CLAIM, CHECK)) and _is_hook(hook, REQUIRE_LIMIT)


def refuse_unlimited(spec: dict[str, Any], *, is_alone: bool) -> None:
    """Raise RequestError, as such a hook does, unless a container has its GPUs alone and asks for no limit."""
    environment = (spec.get("process") or {}).get("env") or []
    asks = any(isinstance(entry, str) and entry.startswith(ASKS_LIMIT) for entry in environment)
    if asks or not is_alone:
        hint = f"use the AMD runtime: --runtime=amd -e AMD_VISIBLE_DEVICES=0 -e {ASKS_LIMIT}8GiB"
        raise RequestError('CDI sets no limit on GPU memory, and vram-limit is "required"', hint=hint)


def _is_hook(hook: object, command: str) -> bool:
    words = hook.get("args") if isinstance(hook, dict) else None
    return (
        isinstance(words, list) and command in words and any(isinstance(w, str) and w.endswith(PROGRAM) for w in words)
    )


def _hook(*words: str) -> dict[str, Any]:
    """Return a hook that needs no environment: some engines pass it none, some the caller's."""
    return {"path": words[0], "args": list(words), "timeout": HOOK_SECONDS}


def _python_words(host: Host, command: str, *more: str) -> list[str]:
    """Return the command line of the hook program.

    It writes no bytecode, because root would write it into a user's directories.
    """
    interpreter = absolute(sys.executable or "/usr/bin/python3")
    roots = _import_roots()
    program = f"{roots[0]}/{PROGRAM}"
    words = [interpreter, "-I", "-S", "-B", program, command, "--import-from", ":".join(roots)]
    if not host.is_this_machine:
        words += ["--host-root", host.root]
    return [*words, *more]


def _import_roots() -> list[str]:
    """Return the directories of the packages that the hook needs, this one first; mostly it is the only one."""
    files = {__file__: "/amd_gpu_tracker/claims/", amdgpu_discovery.__file__ or "": "/amdgpu_discovery/"}
    return list(dict.fromkeys([_lasting(absolute(file).rpartition(inside)[0]) for file, inside in files.items()]))


def _lasting(root: str) -> str:
    """Return the directory where programs stay available for as long as some file names the hook.

    Deb and rpm packages keep modules in LIBRARY/generations/ID/python, which disappears with its version.
    LIBRARY/python has programs that lead to the current version.
    """
    library, found, generation = root.rpartition(f"/{LIBRARY}/{GENERATIONS}/")
    return f"{library}/{LIBRARY}/{generation.partition('/')[2]}" if found else root
