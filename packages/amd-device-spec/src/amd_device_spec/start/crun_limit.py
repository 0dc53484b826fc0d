"""Lets crun set a limit of the dmem controller, which it does not know: systemd makes the container's cgroup.

runc enables every controller on the path to the container's cgroup, and crun only those that it knows. So the slices
above the container pass the controller on, and nothing else is written there. systemd makes a slice with its first
unit, which would be too late; it uses one that is there already. With an empty annotation, crun puts the container into
systemd's scope itself, which then has the controller, and not into a cgroup below that.
Source: crun(1), run.oci.systemd.subgroup; Documentation/admin-guide/cgroup-v2.rst, cgroup.subtree_control.
"""

from __future__ import annotations

import errno
import posix

from amdgpu_discovery.errors import SpecError, reason
from amdgpu_discovery.files import read_to_end
from amdgpu_discovery.usage.memory_limits import CGROUPS, CONTROLLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

SUBGROUP = "run.oci.systemd.subgroup"
PASSED_ON = "cgroup.subtree_control"
SLICE = ".slice"
ROOT_SLICE = "-.slice"
# The cgroup of all cgroups has no name.
TOP = "the top cgroup"
SLICE_MODE = 0o755
# systemd makes no unit with other characters in its name (systemd.unit(5)).
UNIT_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:-_.\\")
# Far more than all controllers of the kernel, and than slices in each other.
LARGEST_LIST = 4096
MOST_SLICES = 16
DIRECTORY = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
FILE = posix.O_RDWR | posix.O_NOFOLLOW | posix.O_CLOEXEC


class _NotPassedOn(Exception):
    """Why a cgroup does not pass the controller on, in words for the log."""


def let_crun_limit(spec: dict[str, Any], host: Host, *, is_preview: bool = False) -> str:
    """Prepare the spec and the cgroups above its container for a limit by crun; return why that is impossible, or "".

    systemd makes the container's cgroup. A preview leaves the cgroups as they are, and takes the path of a container
    that has none yet for one in a slice. SpecError if the spec has other content in place of annotations.
    """
    linux = spec.get("linux")
    path = linux.get("cgroupsPath") if isinstance(linux, dict) else None
    slices = find_slices(path)
    if not slices and not (is_preview and path is None):
        return "crun sets a limit only where the container's cgroup is in a slice of systemd"
    annotations = spec.setdefault("annotations", {})
    if not isinstance(annotations, dict):
        raise SpecError("its 'annotations' is not an object")
    try:
        if not is_preview:
            _pass_on(host.path(CGROUPS), slices)
    except _NotPassedOn as error:
        return f"crun does not enable the dmem cgroup, and {error}"
    annotations[SUBGROUP] = ""
    return ""


def find_slices(path: object) -> tuple[str, ...]:
    """Return the cgroups above the scope that `SLICE:PREFIX:NAME` stands for, from the root; () if it is none.

    systemd puts `a-b.slice` into `a.slice`.
    """
    name, _, scope = path.partition(":") if isinstance(path, str) else ("", "", "")
    if ":" not in scope or not name.endswith(SLICE) or not UNIT_CHARACTERS.issuperset(name):
        return ()
    if name == ROOT_SLICE:
        return ("",)
    parts = name.removesuffix(SLICE).split("-")
    if not all(parts) or len(parts) > MOST_SLICES:
        return ()
    return ("", *("-".join(parts[:end]) + SLICE for end in range(1, len(parts) + 1)))


def _pass_on(root: str, slices: tuple[str, ...]) -> None:
    """Let each of these cgroups, which are in each other, pass the controller on; root's service may do the same."""
    above: int | None = None
    try:
        for name in slices:
            if above is not None:
                _make_slice(name, above)
            opened = _open(name or root, DIRECTORY, above, name or TOP)
            if above is not None:
                posix.close(above)
            above = opened
            _pass_on_one(above, name or TOP)
    finally:
        if above is not None:
            posix.close(above)


def _make_slice(name: str, above: int) -> None:
    """Make a slice that has had no unit yet: the first container's. systemd gives it all else that it should have."""
    try:
        posix.mkdir(name, SLICE_MODE, dir_fd=above)
    except FileExistsError:
        pass
    except OSError as error:
        raise _NotPassedOn(f"{name} cannot be made: {reason(error)}") from error


def _pass_on_one(cgroup: int, name: str) -> None:
    control = _open(PASSED_ON, FILE, cgroup, name)
    try:
        if CONTROLLER.encode() in read_to_end(control, LARGEST_LIST).split():
            return
        posix.write(control, f"+{CONTROLLER}".encode())
    except OSError as error:
        # A cgroup with processes of its own passes no controller on.
        why = "it has processes of its own" if error.errno == errno.EBUSY else reason(error)
        raise _NotPassedOn(f"{name} does not pass it on: {why}") from error
    finally:
        posix.close(control)


def _open(path: str, flags: int, directory: int | None, name: str) -> int:
    """Open a cgroup or its file, which must belong to this user, root: another owner could take the limit away."""
    try:
        opened = posix.open(path, flags, dir_fd=directory)
    except OSError as error:
        raise _NotPassedOn(f"{name} cannot be opened: {reason(error)}") from error
    if posix.fstat(opened).st_uid != posix.geteuid():
        posix.close(opened)
        raise _NotPassedOn(f"{name} belongs to a user, who could lift the limit")
    return opened
