"""The service that gives GPUs to users, for its clients."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_device_spec.settings import read_settings
from amd_gpu_sharing.broker.requests import client, protocol
from amd_gpu_sharing.failure import find_last_error, find_restart, find_start, has_failed, require_not_failed
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.errors import NotDone, ServiceMissing
from amdgpu_discovery.errors import RequestError, ToolkitError
from amdgpu_discovery.usage.people import behind_sudo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from amdgpu_discovery.host import Host


KNOWS_NO_PARTS = "the service that gives out GPUs is still of an earlier version, which does not know --vram"
# A request for a job or a reservation, whose verb the method adds; and the GPUs that a job has, or would have.
JobRequest = protocol.Request
GivenGpus = protocol.Answer


class Service:
    """The service of one host. ServiceMissing if it does not run, except for methods that also work without it.

    ToolkitError, with the service's message and exit code, if it refuses; WaitRefused for an invalid name of a job.
    """

    SOCKET = protocol.SOCKET
    # How long a reservation may last.
    MOST_SECONDS = protocol.LONGEST_RESERVATION

    def __init__(self, host: Host) -> None:
        """Ask the service of this host."""
        self._host = host

    def has_socket(self) -> bool:
        """Return whether there is a socket, which systemd may have made."""
        return self._host.stat(protocol.SOCKET) is not None

    def require_not_failed(self) -> None:
        """Raise ServiceFailed for users if systemd has given up on the service."""
        require_not_failed(self._host)

    def has_failed(self) -> bool:
        """Return whether systemd has given up on the service."""
        return has_failed(self._host)

    def find_last_error(self) -> str:
        """Return the last line of the service in the journal, "" if there is none that the caller may read."""
        return find_last_error(self._host)

    def is_served(self) -> bool:
        """Return whether the service answers."""
        return client.is_served(self._host.path(protocol.SOCKET))

    def may_look_at_users(self) -> bool:
        """Return whether root, and so the service, may look at users' processes; True for others, who cannot know."""
        # Only doctor asks.
        from amd_gpu_tracker.leases.processes import Processes

        return os.geteuid() != 0 or Processes().may_look_at_users()

    def run(self, job: JobRequest, *, timeout: float | None, notify: Callable[[str], None]) -> GivenGpus | None:
        """Get GPUs for this process until it ends, after a wait of at most `timeout` seconds; None means no limit.

        `notify` is called with messages about the wait. Returns None if the service does not run.
        """
        try:
            return self._send_request(job.replace(verb=protocol.RUN), timeout=timeout, notify=notify)
        except client.ServiceStopped:
            if os.geteuid():
                raise
            # The service was disabled; root does not need it.
            return None

    def preview(self, job: JobRequest) -> GivenGpus | None:
        """Return what `run` would return now; None if the service does not run."""
        return self._send_request(job.replace(verb=protocol.PREVIEW))

    def reserve(self, job: JobRequest, *, timeout: float | None, notify: Callable[[str], None]) -> GivenGpus:
        """Reserve GPUs for later, for the `seconds` of the request; `timeout` and `notify` as for `run`."""
        return self._require(job.replace(verb=protocol.RESERVE), timeout=timeout, notify=notify)

    def change(self, verb: str, name: str, owner: int | None, *, seconds: int = 0) -> float:
        """Change a job or reservation by a `verb` of the service; root names the `owner` of another user's.

        `seconds` is its new time, from now. Return the seconds until it ends then, 0 if it has no end.
        """
        return self._require(protocol.Request(verb=verb, name=name, owner=owner, seconds=seconds)).seconds

    def cancel(self, name: str, owner: int | None) -> bool:
        """Remove a waiting job, that of `owner` if one is named; NotDone if the service knows no such job.

        False if the service does not run.
        """
        try:
            return self._send_request(protocol.Request(verb=protocol.CANCEL, name=name, owner=owner)) is not None
        except client.Refused as error:
            if error.exit_code == NotDone.exit_code:
                raise NotDone(error.message, hint=error.hint) from None
            raise

    def _require(self, request: protocol.Request, **how: Any) -> protocol.Answer:
        answer = self._send_request(request, **how)
        if answer is None:
            # Where there are rules, the administrator allowed users already, and only the service is missing.
            raise ServiceMissing(find_start(self._host)) if read_settings(self._host).users else ServiceMissing
        return answer

    def _send_request(self, request: protocol.Request, **how: Any) -> protocol.Answer | None:
        require_name(request.name)
        request = request.replace(behind=behind_sudo(os.environ))
        path = protocol.find_socket(self._host)
        try:
            answer = client.send_request(path, request, **how) if path else None
        except client.Refused as error:
            if error.exit_code == protocol.ProtocolError.exit_code and _knows_no_parts(path, request):
                hint = f"the administrator restarts it: {find_restart(self._host)}"
                raise client.Refused(KNOWS_NO_PARTS, hint=hint, exit_code=error.exit_code) from None
            raise
        except client.ServiceStopped:
            # If the packages were removed meanwhile, the modules that ask systemd are gone.
            with suppress(ImportError):
                require_not_failed(self._host)
            raise
        if answer is None:
            require_not_failed(self._host)
        return answer


def _knows_no_parts(path: str, request: protocol.Request) -> bool:
    """Return whether the service understands a request only without an amount of memory, as earlier versions do."""
    if not request.vram_mb:
        return False
    # No GPU is wanted, so whoever understands this refuses it for that, before it looks at the queue.
    probe = protocol.Request(verb=protocol.PREVIEW, name=request.name)
    codes = [_find_exit_code(path, each) for each in (probe, probe.replace(vram_mb=1))]
    return codes == [RequestError.exit_code, protocol.ProtocolError.exit_code]


def _find_exit_code(path: str, request: protocol.Request) -> int:
    """Return the exit code of the answer to a request, 0 for none."""
    try:
        client.send_request(path, request)
    except ToolkitError as error:
        return error.exit_code
    return 0
