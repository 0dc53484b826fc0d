"""Options of engines in front of their command, such as `docker --context far run`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Those that have their value in the next word, of Docker 28, Podman 5 and nerdctl. `-c` is Docker's context and
# Podman's connection.
ENGINE_VALUES = frozenset(
    (
        *("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey"),
        *("--cgroup-manager", "--conmon", "--connection", "--events-backend", "--hooks-dir", "--identity"),
        *("--imagestore", "--module", "--network-cmd-path", "--network-config-dir", "--out", "--root", "--runroot"),
        *("--runtime", "--runtime-flag", "--ssh", "--storage-driver", "--storage-opt", "--tmpdir", "--url"),
        *("--volumepath", "--cdi-spec-dir", "--default-mounts-file", "--namespace", "-n", "--address"),
    )
)


def values_before(words: Sequence[str], option: str) -> list[str]:
    """Return the values of an option in front of an engine's command."""
    pairs = zip(words, [*words[1:], ""], strict=False)
    return [
        following if word == option else word.partition("=")[2]
        for word, following in pairs
        if word == option or word.startswith(f"{option}=")
    ]
