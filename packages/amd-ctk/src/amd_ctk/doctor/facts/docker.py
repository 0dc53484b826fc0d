"""Which engine the `docker` command talks to, what this engine reports, and what its daemon.json contains."""

from __future__ import annotations

import os
from collections.abc import Callable

from amd_ctk.cdi.engine_directories import find_directories, normalized, without_gpus
from amd_ctk.configuration.apply import ask_engine
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.configuration.engine_files import LARGEST_ENGINE_FILE, LARGEST_OF_DOCKER, find_missing, read_document
from amd_ctk.configuration.own_file import find_own_file
from amd_ctk.configuration.runtime_program import is_program
from amd_ctk.configuration.unit_files import CommandLine, read_command_line
from amd_ctk.doctor.facts.engine_files import find_without_ranges
from amd_ctk.doctor.facts.users import User
from amd_ctk.engines.docker import DOCKER, ROOTLESS_FILE, has_cdi_on
from amd_ctk.engines.engine_address import Endpoint, find_endpoint
from amd_ctk.engines.engine_answers import EngineInfo, ask_info
from amd_ctk.engines.engine_words import PODMAN, engine_of
from amdgpu_discovery.command_line.document import Document
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

AMD = "amd"
# Why an engine does not answer: this user may not ask it, it takes too long, or nothing is there.
REFUSED = "refused"
LATE = "late"
ABSENT = "absent"


class DockerFacts(Value):
    """The engine behind the `docker` command, and daemon.json."""

    is_installed: bool = False
    # Whether Podman answers in Docker's place.
    is_podman: bool = False
    # Why the engine does not answer, "" if it does; `silence` is REFUSED, LATE or ABSENT.
    problem: str = ""
    silence: str = ""
    version: tuple[int, ...] = ()
    runtimes: tuple[str, ...] = ()
    default_runtime: str = ""
    operating_system: str = ""
    # What makes the cgroups of containers, `systemd` or `cgroupfs`.
    cgroup_driver: str = ""
    is_rootless: bool = False
    # Whether containers have other user ids than the host (userns-remap), and whether they get SELinux labels.
    maps_users: bool = False
    sets_labels: bool = False
    endpoint: Endpoint = Endpoint()
    # The daemon.json that this engine reads.
    file_path: str = DOCKER.config_path
    # How to configure an engine whose file amd-ctk does not edit, "" if it does.
    by_hand: str = ""
    # The names of the AMD runtime in daemon.json.
    file_runtimes: tuple[str, ...] = ()
    # Where this engine looks for CDI specs, if that is elsewhere and none there offers AMD GPUs.
    cdi_elsewhere: tuple[str, ...] = ()
    # None if the file does not set it.
    file_cdi: bool | None = None
    # Why daemon.json cannot be read.
    file_problem: str = ""
    # Directives that are both in the file and on the daemon's command line.
    taken_directives: tuple[str, ...] = ()
    # Programs in daemon.json that are missing, and those that cannot be executed.
    missing_programs: tuple[str, ...] = ()
    closed_programs: tuple[str, ...] = ()
    # The program of a runtime that is named amd and is not the AMD runtime.
    foreign_program: str = ""
    # Why dockerd rejects daemon.json, and a default runtime that is defined nowhere; "" if there is no such problem.
    file_refusal: str = ""
    undefined_runtime: str = ""
    # The user for whose ids the file asks, if a file lacks a range for it.
    user_without_range: str = ""
    # The version of this user's `docker compose`, () if there is none.
    compose_version: tuple[int, ...] = ()

    @property
    def is_broken(self) -> bool:
        """Return whether daemon.json cannot work, whatever the daemon does."""
        programs = self.missing_programs or self.closed_programs or self.foreign_program
        refusal = self.file_refusal or self.undefined_runtime or self.user_without_range
        return bool(self.file_problem or programs or refusal)

    @property
    def is_desktop(self) -> bool:
        """Return whether the engine runs in the virtual machine of Docker Desktop."""
        return "Docker Desktop" in self.operating_system

    @property
    def has_cdi(self) -> bool:
        """Return whether the engine accepts CDI devices."""
        return has_cdi_on(self.version, self.file_cdi)

    @property
    def version_text(self) -> str:
        """Return the version as people write it."""
        return ".".join(map(str, self.version))

    @property
    def file_name(self) -> str:
        """Return the name of the file, without its directory."""
        return self.file_path.rpartition("/")[2]


def read_docker(host: Host, user: User | None = None) -> DockerFacts:
    """Return the facts about Docker; an engine that does not answer is a fact too.

    `user` is the owner of a rootless engine, if there is one.
    """
    if engine_of("docker") == PODMAN:
        # `docker` is Podman here, and asking Podman would make it set itself up.
        return _read_file(host)
    info = ask_info(["docker"])
    if not info.answer.is_installed:
        return _read_file(host)
    endpoint = find_endpoint()
    if not info.version or info.is_podman or endpoint.is_other_machine:
        # There is no answer, or it is not about this file.
        silence = {} if info.version else _read_no_answer(info)
        return _read_file(host).replace(is_installed=True, is_podman=info.is_podman, endpoint=endpoint, **silence)
    facts = _read_file(host)
    if info.is_rootless:
        # Without a user, the owner of the engine is unknown.
        facts = _read(host, f"{user.settings}/{ROOTLESS_FILE}", _judge) if user else DockerFacts(file_path="")
    directories = normalized(info.cdi_directories or ()) or find_directories(host, DOCKER, [facts.file_path])
    return facts.replace(
        is_installed=True,
        version=info.version,
        runtimes=tuple(sorted(info.runtimes)),
        default_runtime=info.default_runtime,
        operating_system=info.operating_system,
        cgroup_driver=info.cgroup_driver,
        is_rootless=info.is_rootless,
        maps_users=info.maps_users,
        sets_labels=info.sets_labels,
        compose_version=info.compose_version,
        endpoint=endpoint,
        cdi_elsewhere=without_gpus(host, directories),
    )


def _read_no_answer(info: EngineInfo) -> dict[str, str]:
    """Return `problem` and `silence` of DockerFacts for an engine that did not answer."""
    answer = info.answer
    if answer.problem:
        return {"problem": answer.problem, "silence": LATE if answer.is_late else ABSENT}
    lines = answer.errors.strip().splitlines() or info.errors or ["the docker daemon does not answer"]
    # `docker` repeats the words of the kernel.
    is_refused = "permission denied" in lines[-1].lower()
    return {"problem": lines[-1], "silence": REFUSED if is_refused else ABSENT}


def _read_file(host: Host) -> DockerFacts:
    """Return what root's daemon.json says, whether dockerd accepts it, and conflicts with the daemon's command line."""
    own = find_own_file(host, DOCKER)

    def judge(document: Document) -> DockerFacts:
        options = read_command_line(host, f"{DOCKER.service}.service")
        written = document.get(())
        keys = written if isinstance(written, dict) else {}
        twice = [option for key, option in DOCKER.exclusive_options if key in keys and options.values_of(option)]
        return _judge(document).replace(
            taken_directives=tuple(twice),
            file_refusal=ask_engine(DOCKER, document.text, own.path)[0],
            undefined_runtime=_find_undefined(document, options),
            user_without_range=_find_unmapped(document, host),
        )

    facts = _read(host, own.path, judge, largest=LARGEST_OF_DOCKER)
    return facts.replace(by_hand=own.refusal.hint) if own.refusal else facts


def _read(
    host: Host, path: str, judge: Callable[[Document], DockerFacts], *, largest: int = LARGEST_ENGINE_FILE
) -> DockerFacts:
    facts = DockerFacts(file_path=path)
    try:
        return judge(read_document(host, DOCKER, path, largest=largest)).replace(file_path=path)
    except FileNotFoundError:
        return facts
    except (OSError, ValueError, ToolkitError) as error:
        return facts.replace(file_problem=reason(error))


def _judge(document: Document) -> DockerFacts:
    layout = DOCKER.find_layout(document)
    found = layout.programs_in(document)
    programs = {name: program for name, program in found.items() if is_amd_runtime(program)}
    cdi = document.get(layout.cdi) if layout.cdi else None
    return DockerFacts(
        file_runtimes=tuple(programs),
        file_cdi=cdi if isinstance(cdi, bool) else None,
        foreign_program="" if AMD in programs else found.get(AMD, ""),
        missing_programs=tuple(find_missing(programs.values())),
        closed_programs=tuple(path for path in programs.values() if os.path.exists(path) and not is_program(path)),
    )


def _find_undefined(document: Document, options: CommandLine) -> str:
    """Return the file's default runtime if it is defined nowhere, else "". dockerd --validate accepts such a file."""
    layout = DOCKER.find_layout(document)
    name = layout.default_in(document)
    # Names of shims need no entry (moby, daemon/runtime_unix.go).
    is_built_in = name in DOCKER.built_in or name.startswith("io.containerd.")
    added = [value.partition("=")[0] for value in options.values_of("--add-runtime")]
    return "" if is_built_in or name in (*layout.programs_in(document), *added) else name


def _find_unmapped(document: Document, host: Host) -> str:
    """Return the user of userns-remap if it has no range of ids, else "". dockerd makes those of `default` itself."""
    value = document.get(("userns-remap",))
    user = value.partition(":")[0] if isinstance(value, str) else ""
    # The ranges of a number are listed under its name.
    is_judged = user not in ("", "default") and not user.isdecimal()
    return user if is_judged and find_without_ranges(host, user) else ""
