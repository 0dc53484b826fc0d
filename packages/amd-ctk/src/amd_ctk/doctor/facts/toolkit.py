"""The toolkit's own settings, state and programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from amd_ctk.cdi.specs import FoundGpus
from amd_ctk.companions import SHARING, install_command, is_installed
from amd_ctk.configuration.runtime_program import find_runtime_program, has_low_level_runtime, usual_runtime
from amd_ctk.doctor.facts import read_or
from amd_ctk.shares_gpus import needs_sharing
from amd_device_spec.settings import CONFIG_FILE, IDLE, RESERVED, USERS, Settings, check_settings
from amd_device_spec.settings_file import is_compiled, read_settings_file
from amd_device_spec.start.memory_limit import (
    OFF,
    MemoryLimit,
    enforce,
    find_obstacle,
    find_obstacle_to_old_crun,
    is_crun,
)
from amd_gpu_tracker import ContainerUse, Tracker
from amd_gpu_tracker.watch.show.listing import cut_id
from amdgpu_discovery.command_line.programs import runs_systemd
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.value import Value

SUDOERS = "/etc/sudoers"
SUDOERS_D = "/etc/sudoers.d"
# The most containers to name for one GPU.
MOST_NAMED_CONTAINERS = 3
SET_RUNC = "sudo amd-ctk config set low-level-runtime runc"
# One that every GPU can have.
LEAST_LIMIT = MemoryLimit(mib=1, source="")


class ToolkitFacts(Value):
    """The toolkit's installation, settings and state."""

    settings_problem: str = ""
    settings_hint: str = ""
    is_compiled: bool = True
    # The problem of each group of GPUs that is impossible on this host.
    group_problems: tuple[str, ...] = ()
    visible_devices_env: str = "always"
    # Whether some containers have a limit on GPU memory, whether one that cannot be enforced is refused, why none can
    # be, and why some cannot be. If crun sets limits, the step after which runc sets them.
    limits_memory: bool = False
    requires_memory_limit: bool = False
    memory_obstacle: str = ""
    memory_gap: str = ""
    step_to_runc: str = ""
    # Whether only users who have reserved a GPU may open its nodes, how the nodes differ from that, what prevents it,
    # and the fix.
    is_access_reserved: bool = False
    access_problem: str = ""
    access_obstacle: str = ""
    access_fix: str = ""
    # Why the tracker's state cannot be used.
    tracker_problem: str = ""
    # Whether a later version of the toolkit wrote this state.
    tracker_is_later: bool = False
    # Whether AMD's toolkit 1.x left a state that was not taken over yet.
    has_former_tracker: bool = False
    dead_leases: int = 0
    # Why reservations cannot be written, which stops containers; what else cannot be recorded, which does not.
    unwritable: str = ""
    unrecorded: tuple[str, ...] = ()
    # Sharing of GPUs: whether people may reserve some, whether containers need a reservation, the idle time after which
    # owners get a warning, whether there is a socket for clients, whether the service answers there, and whether
    # systemd could make the socket.
    has_users: bool = False
    # The command that installs amd-gpu-sharing, if there are rules or jobs for it and it is not installed.
    missing_sharing: str = ""
    requires_reservation: bool = False
    idle: str = ""
    has_socket: bool = False
    is_served: bool = False
    # Whether systemd has given up on the service, and the last line of the service if it does not answer.
    has_failed: bool = False
    last_error: str = ""
    has_systemd: bool = False
    # Whether root, and so the service, may look at processes of users; True for other users, who cannot know.
    may_look_at_users: bool = True
    # Arguments of `amd-ctk` that remove each rule, job and reservation of a deleted user or group.
    departed: tuple[str, ...] = ()
    # The containers and jobs that have each GPU in use, as text.
    users_by_gpu: dict[int, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # "" if it is not installed.
    runtime_program: str = ""
    # The configured low-level runtime if it cannot be run, and whether there is any.
    broken_low_level: str = ""
    has_low_level: bool = True
    # Directories of sudo's secure_path; () if it is not set or may not be read.
    secure_path: tuple[str, ...] = ()
    program_directory: str = ""
    is_virtual_environment: bool = False

    @property
    def service_silence(self) -> str:
        """Return what is wrong with a service that does not answer."""
        silence = "does not answer" if self.has_socket else "does not listen"
        if self.has_failed:
            silence = "has failed"
        last = f"; the end of 'journalctl -u amd-gpu-tracker' is: {self.last_error}" if self.last_error else ""
        return f"{silence}{last}"

    @property
    def service_fix(self) -> str:
        """Return the command that makes the service that gives out GPUs answer."""
        from amd_gpu_sharing import RESTART, SERVE_HINT, SOCKET_UNIT

        if not self.has_systemd:
            return SERVE_HINT
        if self.has_failed:
            return RESTART
        # A restart makes systemd replace a socket that another program left, and forget one that was removed. It
        # restarts the service too.
        return f"sudo systemctl enable {SOCKET_UNIT} && sudo systemctl restart {SOCKET_UNIT}"


def read_toolkit(host: Host) -> ToolkitFacts:
    """Return the facts about the toolkit; unreadable files are a fact too."""
    chosen, problem, hint = _read_settings(host)
    configured = str(chosen.get("low-level-runtime", ""))
    return ToolkitFacts(
        settings_problem=problem,
        settings_hint=hint,
        is_compiled=bool(problem) or is_compiled(host),
        group_problems=() if problem else read_or(lambda: _group_problems(host), ()),
        visible_devices_env=str(chosen.get("visible-devices-env", "always")),
        **_read_memory_limit(host, chosen),
        **_read_access(host, is_reserved=chosen.get("gpu-access") == RESERVED),
        **_read_tracker(host),
        has_users=bool(chosen.get(USERS)),
        idle=str(chosen.get(IDLE, "")),
        **_read_service(host),
        has_systemd=runs_systemd(host),
        runtime_program=read_or(lambda: find_runtime_program(sys.argv[0], os.environ.get("PATH", "")), ""),
        broken_low_level=configured if configured and not has_low_level_runtime(configured) else "",
        has_low_level=bool(configured or has_low_level_runtime("runc") or has_low_level_runtime("crun")),
        secure_path=tuple(_secure_path(host)),
        program_directory=_own_directory(),
        # Python's venv puts pyvenv.cfg beside the directory of programs.
        is_virtual_environment=os.path.exists(f"{os.path.dirname(_own_directory())}/pyvenv.cfg"),
    )


def _read_settings(host: Host) -> tuple[dict[str, object], str, str]:
    """Return the settings, what is wrong with them, and a hint."""
    try:
        chosen = read_settings_file(host)
        check_settings(chosen, CONFIG_FILE)
    except ToolkitError as error:
        return {}, error.message, error.hint
    return chosen, "", ""


def _read_memory_limit(host: Host, chosen: dict[str, object]) -> dict[str, Any]:
    """Return the facts about limits on GPU memory by name; those of containers that ask for one are not known."""
    settings = check_settings(chosen, CONFIG_FILE)
    if settings.vram_limit == OFF or not (settings.limits_memory or settings.swarm_vram_resources):
        return {}
    runtime = settings.low_level_runtime or usual_runtime()
    obstacle = find_obstacle(host, runtime) or (find_obstacle_to_old_crun(runtime) if is_crun(runtime) else "")
    gpus: Sequence[Gpu] = () if obstacle else read_or(lambda: find_gpus(host), ())
    alone = [enforce(LEAST_LIMIT, [gpu], host, runtime=runtime).obstacle for gpu in gpus]
    together = enforce(LEAST_LIMIT, gpus, host, runtime=runtime).obstacle if gpus else ""
    return {
        "limits_memory": True,
        "requires_memory_limit": settings.requires_limit,
        "memory_obstacle": together if alone and all(alone) else obstacle,
        "memory_gap": together,
        "step_to_runc": _find_step_to_runc(settings) if is_crun(runtime) else "",
    }


def _find_step_to_runc(settings: Settings) -> str:
    if has_low_level_runtime("runc"):
        return SET_RUNC
    return f"install runc, then run: {SET_RUNC}" if settings.low_level_runtime else "install runc"


def _read_access(host: Host, *, is_reserved: bool) -> dict[str, Any]:
    """Return the facts about access to nodes by name. While the tracker is disabled, all users may open them."""
    facts: dict[str, Any] = {"is_access_reserved": is_reserved}
    # Other checks report problems of the tracker and of GPUs.
    with suppress(ToolkitError, OSError):
        facts["is_access_reserved"] = is_reserved and Tracker(host).is_enabled()
        if not is_installed(SHARING):
            return facts
        from amd_gpu_sharing import find_access_problem, find_obstacles

        facts["access_problem"] = find_access_problem(host, is_reserved=facts["is_access_reserved"])
        if facts["is_access_reserved"] and (found := next(find_obstacles(host), None)):
            facts |= {"access_obstacle": found.problem, "access_fix": found.fix}
    return facts


def _read_service(host: Host) -> dict[str, Any]:
    """Return the facts about the service that gives GPUs to people, or how to install it."""
    if not is_installed(SHARING):
        return {"missing_sharing": install_command(SHARING) if needs_sharing(host) else ""}
    from amd_gpu_sharing import Service, find_departed

    service = Service(host)
    is_served = service.is_served()
    return {
        "departed": find_departed(host),
        "has_socket": service.has_socket(),
        "is_served": is_served,
        "has_failed": not is_served and service.has_failed(),
        "last_error": "" if is_served else printable(service.find_last_error()),
        "may_look_at_users": service.may_look_at_users(),
    }


def _group_problems(host: Host) -> tuple[str, ...]:
    return tuple(problem.message for problem in FoundGpus(host).groups.problem_by_name.values())


def _read_tracker(host: Host) -> dict[str, Any]:
    tracker = Tracker(host)
    faults = tracker.faults()
    return {
        "tracker_problem": faults.problem,
        "tracker_is_later": faults.is_later,
        "has_former_tracker": faults.has_former,
        "dead_leases": faults.dead_leases,
        "unwritable": faults.unwritable,
        "users_by_gpu": {number: _names(tracker, uses) for number, uses in faults.uses_by_number.items()},
        "unrecorded": tuple(tracker.recording.failures().values()),
        "requires_reservation": tracker.settings.requires_reservation(),
    }


def _names(tracker: Tracker, uses: Sequence[ContainerUse]) -> str:
    names = tracker.container_names(uses[:MOST_NAMED_CONTAINERS])
    more = f" and {len(uses) - MOST_NAMED_CONTAINERS} more" if len(uses) > MOST_NAMED_CONTAINERS else ""
    shown = (names.get(use.container_id, cut_id(use.container_id)) for use in uses[:MOST_NAMED_CONTAINERS])
    return printable(", ".join(shown)) + more


def _secure_path(host: Host) -> Iterator[str]:
    """Yield the directories in which sudo looks for programs, from the last file that sets them."""
    found = ""
    for path in (SUDOERS, *(f"{SUDOERS_D}/{name}" for name in sorted(host.names(SUDOERS_D)))):
        for line in host.read_attribute(path).splitlines():
            words = line.strip()
            if words.startswith("Defaults") and "secure_path" in words:
                found = words.partition("secure_path")[2].lstrip(" =").strip().strip('"')
    yield from filter(None, found.split(":"))


def _own_directory() -> str:
    return os.path.dirname(os.path.abspath(sys.argv[0])) if os.path.basename(sys.argv[0]) == "amd-ctk" else ""
