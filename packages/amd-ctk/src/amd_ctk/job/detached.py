"""Run a job as a unit of the user's own systemd, so that it goes on when the terminal is closed."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from contextlib import suppress

from amd_ctk.job.run import plan_job
from amd_ctk.job.service import preview
from amd_ctk.job.start import SYSTEMD_RUN
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.errors import OptionsExcluded
from amdgpu_discovery.command_line.process import require_program
from amdgpu_discovery.command_line.programs import SYSTEMCTL_SECONDS, ask
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import FileError, ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

# systemd makes a file here for each user whose manager runs without a session (loginctl(1)).
LINGER = "/var/lib/systemd/linger"
LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class NotDetached(ToolkitError):
    """A job that cannot be a unit of its user."""

    exit_code = 2


def run_detached(host: Host, command: Sequence[str], *, name: str, output: str, each: str, **options: Any) -> None:
    """Run a command with `options` of `plan_job` in a unit, whose output goes to `output`/NAME.log.

    NotDetached, FileError, and the errors of `plan_job`.
    """
    if each or options["unit"]:
        raise OptionsExcluded("--detach", "--each" if each else "--unit")
    job = plan_job(command, name=name, **options)
    name = job.name
    # `--wait=` is `--wait`.
    words = [f"--{key}={value}" for key, value in options.items() if value or (key == "wait" and value is not None)]
    words = ["run", *words, f"--name={name}", "--", *command]
    require_name(name)
    require_program(SYSTEMD_RUN)
    _require_manager()
    # What would only be in the log is said here.
    preview(host, job)
    log = _make_log(output, name)
    # The unit gets the caller's environment: systemd reads the values, which no other user sees.
    properties = [f"--setenv={variable}" for variable in os.environ if variable.isidentifier()]
    properties += [f"--property=Standard{stream}=append:{log}" for stream in ("Output", "Error")]
    unit = f"amd-ctk-{name}"
    start = [SYSTEMD_RUN, "--user", "--quiet", "--collect", f"--unit={unit}", f"--working-directory={os.getcwd()}"]
    answer = ask([*start, *properties, "--", os.path.abspath(sys.argv[0]), *words], seconds=SYSTEMCTL_SECONDS)
    if not answer.succeeded:
        why = answer.problem or answer.errors.strip().rpartition("\n")[2]
        raise NotDetached(f"systemd did not start {name}: {why}", hint=f"see 'systemctl --user status {unit}'")
    print(f"{name} runs in the background; its output is in {log}")
    user = pwd.getpwuid(os.geteuid()).pw_name
    if host.stat(f"{LINGER}/{user}") is None:
        print_note(f"{name} ends when you log out ('loginctl enable-linger' lets it go on)")


def _make_log(output: str, name: str) -> str:
    """Make the log of a job, and return its path; FileError."""
    log = os.path.abspath(os.path.join(output, f"{name}.log"))
    try:
        os.close(os.open(log, LOG, 0o666))
    except OSError as error:
        raise FileError(f"{log} cannot be written: {reason(error)}", hint="name a directory: --output=DIR") from error
    return log


def _require_manager() -> None:
    """Raise NotDetached if no manager of this user runs; sudo may leave the directory of another one."""
    directory = os.environ.get("XDG_RUNTIME_DIR", "")
    is_own = False
    with suppress(OSError):
        is_own = bool(directory) and os.stat(f"{directory}/systemd/private").st_uid == os.geteuid()
    if not is_own:
        problem = "--detach needs the user's own systemd, which cron and sudo do not have"
        raise NotDetached(problem, hint="log in as the user, or leave out --detach")
