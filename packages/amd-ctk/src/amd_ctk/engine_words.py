"""Options of engines in front of their command, such as `docker --context far run`."""

from __future__ import annotations

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
