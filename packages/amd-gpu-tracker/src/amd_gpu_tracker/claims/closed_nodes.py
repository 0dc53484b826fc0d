"""Nodes of GPUs that only their holders open, by access control lists that the service of amd-gpu-sharing keeps.

It is apart, because of container starts only those on such hosts load it.
"""

from __future__ import annotations

import errno
import posix

from amdgpu_discovery.errors import FileError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

ACCESS_LIST = "system.posix_acl_access"
NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)


def remove_users(host: Host, gpus: Iterable[GpuLocation]) -> None:
    """Let no user open the nodes of GPUs that nobody has now; FileError.

    The service removes its users at the end of a job, unless it was stopped before that.
    """
    for node in (node for gpu in gpus for node in (gpu.render_path, gpu.card_path) if node):
        try:
            posix.removexattr(host.path(node), ACCESS_LIST, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (*NO_LIST, errno.ENOENT):
                problem = f"users who had {node} before cannot be kept from it: {reason(error)}"
                raise FileError(problem, hint="run 'amd-ctk doctor'") from error
