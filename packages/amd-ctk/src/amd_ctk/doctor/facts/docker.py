"""What Docker says of itself, and what its file says."""

from __future__ import annotations

import os

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.configuration.unit_files import CommandLine, read_command_line
from amd_ctk.engines.docker import DOCKER
from amd_ctk.explain.running import SECONDS
from amd_ctk.programs import ask
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host


class DockerFacts(Value):
    """The engine behind the `docker` command, and daemon.json."""

    is_installed: bool = False
    # Why the engine does not answer, "" where it does.
    problem: str = ""
    version: tuple[int, ...] = ()
    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    operating_system: str = ""
    is_rootless: bool = False
    # Names under which daemon.json has the AMD runtime, and the programs that it names for them.
    file_runtimes: tuple[str, ...] = ()
    file_programs: tuple[str, ...] = ()
    # None where the file says nothing.
    file_cdi: bool | None = None
    # Why daemon.json cannot be read.
    file_problem: str = ""
    # What stands both in the file and on the daemon's command line.
    taken_directives: tuple[str, ...] = ()
    # Of daemon.json, the programs that are not there.
    missing_programs: tuple[str, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Return whether daemon.json cannot serve, whatever the daemon does."""
        return bool(self.file_problem or self.missing_programs)

    @property
    def version_words(self) -> str:
        """Return the version as people write it."""
        return ".".join(map(str, self.version))


def read_docker(host: Host) -> DockerFacts:
    """Return what there is to know; an engine that does not answer is a fact too."""
    facts = _read_file(host)
    answer = ask(["docker", "info", "--format", "{{json .}}"], seconds=SECONDS)
    if answer.problem:
        return facts.replace(is_installed="not installed" not in answer.problem, problem=answer.problem)
    info = _parse(answer.output)
    if not info.get("ServerVersion"):
        lines = answer.errors.strip().splitlines() or ["the docker daemon does not answer"]
        return facts.replace(is_installed=True, problem=lines[-1])
    runtimes = info.get("Runtimes")
    return facts.replace(
        is_installed=True,
        version=_parse_version(str(info["ServerVersion"])),
        runtimes=tuple(sorted(runtimes)) if isinstance(runtimes, dict) else (),
        default_runtime=str(info.get("DefaultRuntime") or ""),
        operating_system=str(info.get("OperatingSystem") or ""),
        is_rootless="name=rootless" in (info.get("SecurityOptions") or []),
    )


def _parse(text: str) -> dict[str, Any]:
    import json

    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def _parse_version(text: str) -> tuple[int, ...]:
    parts = text.replace("-", ".").replace("+", ".").split(".")[:3]
    return tuple(int(part) for part in parts if part.isascii() and part.isdecimal())


def _read_file(host: Host) -> DockerFacts:
    if host.stat(DOCKER.config_path) is None:
        return DockerFacts()
    try:
        return _read_document(host)
    except (OSError, ValueError, ToolkitError) as error:
        return DockerFacts(file_problem=str(getattr(error, "message", error)))


def _read_document(host: Host) -> DockerFacts:
    document = DOCKER.read(host.read(DOCKER.config_path).decode())
    layout = DOCKER.find_layout(document)
    entries = document.get(layout.runtimes)
    programs = {
        str(name): program
        for name, entry in (entries.items() if isinstance(entries, dict) else ())
        if os.path.basename(program := layout.program_of(entry)) == RUNTIME_PROGRAM
    }
    cdi = document.get(layout.cdi) if layout.cdi else None
    return DockerFacts(
        file_runtimes=tuple(programs),
        file_programs=tuple(programs.values()),
        file_cdi=cdi if isinstance(cdi, bool) else None,
        taken_directives=tuple(_taken(document, read_command_line(host, f"{DOCKER.service}.service"))),
        missing_programs=tuple(path for path in programs.values() if "/" in path and not os.path.exists(path)),
    )


def _taken(document: Any, options: CommandLine) -> list[str]:
    written = document.get(())
    keys = written if isinstance(written, dict) else {}
    return [option for directive, option in DOCKER.exclusive_options if directive in keys and options.values_of(option)]
