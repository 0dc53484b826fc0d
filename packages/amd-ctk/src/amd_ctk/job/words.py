"""The words of a command that is run with GPUs: an engine's, which must be told about them, and systemd's around it."""

from __future__ import annotations

import os

from amd_gpu_tracker.claims.claim import TOKEN
from amd_gpu_tracker.claims.handover import VISIBLE_DEVICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import GpuLocation

ENGINES = ("docker", "podman")
COMMANDS = ("run", "create")
# Options in front of the command that have their value in the next word, of Docker 28 and Podman 5. `-c` is Docker's
# context and Podman's connection.
ENGINE_VALUES = frozenset(
    (
        *("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey"),
        *("--cgroup-manager", "--conmon", "--connection", "--events-backend", "--hooks-dir", "--identity"),
        *("--imagestore", "--module", "--network-cmd-path", "--network-config-dir", "--out", "--root", "--runroot"),
        *("--runtime", "--runtime-flag", "--ssh", "--storage-driver", "--storage-opt", "--tmpdir", "--url"),
        *("--volumepath", "--cdi-spec-dir", "--default-mounts-file", "--namespace"),
    )
)
LONGEST_DEFAULT_NAME = 40


def with_token(words: Sequence[str]) -> list[str]:
    """Return the words of a command; where it is `docker run` and its like, with what hands the GPUs on."""
    position = _find_run(words)
    if position is None:
        return list(words)
    # In front of the caller's own options: of two values of a variable, engines take the last.
    return [*words[: position + 1], "-e", VISIBLE_DEVICES, "-e", TOKEN, *words[position + 1 :]]


def in_unit(words: Sequence[str], gpus: Sequence[GpuLocation]) -> list[str]:
    """Return the words that run a command in a scope of systemd that may open these GPUs and no other device.

    A scope is the calling process itself, so that signals, exit code and environment stay.
    """
    nodes = ["/dev/kfd", *(path for gpu in gpus for path in (gpu.render_path, gpu.card_path) if path)]
    allowed = [word for node in nodes for word in ("-p", f"DeviceAllow={node} rw")]
    return ["systemd-run", "--scope", "--quiet", "--collect", "-p", "DevicePolicy=closed", *allowed, "--", *words]


def default_name(words: Sequence[str], pid: int) -> str:
    """Return what a job is called that was given no name: its program and a number that no other job has."""
    program = os.path.basename(words[0])[:LONGEST_DEFAULT_NAME]
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in program)
    return f"{letters.strip('-') or 'job'}-{pid}"


def _find_run(words: Sequence[str]) -> int | None:
    """Return where `run` or `create` stands in an engine's command line, None where it is no such command."""
    if os.path.basename(words[0]) not in ENGINES:
        return None
    position = 1
    while position < len(words):
        word = words[position]
        if word in COMMANDS:
            return position
        if word.startswith("-"):
            position += 2 if word in ENGINE_VALUES else 1
        elif word == "container":
            position += 1
        else:
            return None
    return None
