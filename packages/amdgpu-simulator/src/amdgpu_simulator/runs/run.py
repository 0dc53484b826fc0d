"""Run a command on a simulated host that lies over this machine's /sys and /dev."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from amdgpu_discovery.command_line.process import end_by, replace_process, require_program
from amdgpu_discovery.command_line.standard_output import print_error
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import ROOT_VARIABLE, Host
from amdgpu_simulator.hosts.build import build_host
from amdgpu_simulator.profile_files import load_profile
from amdgpu_simulator.runs.laid import lay_over, numbers_of_nodes
from amdgpu_simulator.runs.namespace import enter_namespace
from amdgpu_simulator.runs.running import running_simulation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import NoReturn

# The terminal also sends these to the command. The signals in PASSED_ON need to be passed on.
TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
DRIVERLESS = "without a driver: opening a GPU fails"
PLAIN = "; its device nodes are plain files"
# The GPUs that these name, and the reservation, are those of this machine.
REMOVED = (
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"),
    "AMD_CTK_RESERVATION",
)
NO_ENGINES = ", and engines need 'podman unshare' in front, or root"


def run_simulated(profile: str, argv: Sequence[str], *, name: str) -> NoReturn:
    """Run a command on the host of a profile, remove the host when the command ends, and exit with its status."""
    argv = argv[1:] if argv[0] == "--" else argv
    require_program(argv[0] if argv else "")
    loaded = load_profile(profile)
    numbers = numbers_of_nodes(loaded)
    with running_simulation(name or loaded.name) as (called, root, lock):
        run_on(build_host(root, loaded), numbers, argv, name=called, lock=lock)


def run_on(
    host: Host, numbers: Mapping[str, tuple[int, int]], argv: Sequence[str], *, name: str = "", lock: int | None = None
) -> NoReturn:
    """Run a command on a host, and exit with its status; a `name` is announced, and a `lock` is the command's, too.

    `numbers` are those of the host's device nodes. The host lies over this machine only once.
    """
    pid = os.fork()
    if pid == 0:
        if lock is not None:
            os.set_inheritable(lock, True)
        _become(host, numbers, name, argv)
    code = os.waitstatus_to_exitcode(_wait(pid))
    if code < 0:
        end_by(-code)
    sys.exit(code)


def _become(host: Host, numbers: Mapping[str, tuple[int, int]], name: str, argv: Sequence[str]) -> NoReturn:
    try:
        enter_namespace()
        plain = lay_over(host, numbers)
        if name:
            print(f"Simulating {name} until the command ends, {DRIVERLESS}{_describe_nodes(plain)}", file=sys.stderr)
            sys.stderr.flush()
        os.environ.pop(ROOT_VARIABLE, None)
        # The path of the working directory may now lead to the simulated host's directory.
        with suppress(OSError):
            os.chdir(os.getcwd())
        replace_process(argv, {name: value for name, value in os.environ.items() if name not in REMOVED})
    except ToolkitError as error:
        print_error(str(error))
        os._exit(error.exit_code)
    except OSError as error:
        print_error(f"the simulated host cannot be laid over this machine: {reason(error)}")
        os._exit(1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # Returning would run the parent's code in the child.
    os._exit(1)


def _describe_nodes(plain: Sequence[str] | None) -> str:
    if plain is None:
        return PLAIN + (NO_ENGINES if os.geteuid() else "")
    return f"; plain files, because this machine has devices with the same numbers: {', '.join(plain)}" if plain else ""


def _wait(pid: int) -> int:
    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(pid, number)

    for number in TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for number in PASSED_ON:
        signal.signal(number, pass_on)
    return os.waitpid(pid, 0)[1]
