"""Reports to the engine through `--log`, to its user through stderr, and to the administrator in a log file.

Docker shows the last line of level "error" in the file named by `--log` and never shows stderr. Podman without `--log`
shows stderr.
"""

from __future__ import annotations

import posix
import time

from amdgpu_discovery.files import append_to_file
from amdgpu_discovery.untrusted.plain_json import as_log_word, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_container_runtime.runc import Call
    from amdgpu_discovery.host import Host

NAME = "amd-container-runtime"
LOG_FILE = "/var/log/amd-container-runtime.log"
LEVELS = ("debug", "info", "warn", "error")


def report_failure(call: Call, message: str) -> None:
    """Report to the engine and on stderr why this call fails. Never raises."""
    text = f"{NAME}: {message}"
    if call.log:
        _append(call.log, _log_line(call.log_format, text))
    try:  # noqa: SIM105 - contextlib is a large import
        posix.write(2, f"{text}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # stderr is closed; the exit code still shows the failure


class Log:
    """The administrator's log, in `key=value` lines; the environment is never written to it.

    On a simulated host, each line ends with the host's directory.
    """

    def __init__(self, host: Host, *, level: str = "info", path: str = "", home: str = "") -> None:
        """Log to `path`; by default to the host's LOG_FILE, or in `home` if this process may not write that file."""
        self._level = LEVELS.index(level)
        # With a link, the owner of a home directory could make root write to another file.
        at_home = [(f"{home}/{NAME}.log", posix.O_NOFOLLOW)] if home else []
        self._files = [(path, 0)] if path else [(host.path(LOG_FILE), 0), *at_home]
        self._end = "" if host.is_this_machine else f" host_root={as_log_word(host.root)}"

    def write(self, level: str, message: str, **fields: object) -> None:
        """Append one line. If no file can be written, there is no log, and the container starts anyway."""
        if LEVELS.index(level) < self._level:
            return
        words = map(as_log_word, [f"{NAME} {message}", *map(str, fields.values())])
        values = "".join([f" {name}={word}" for name, word in zip(("msg", *fields), words, strict=True)])
        line = f"time={_now()} level={level.upper()}{values}{self._end}\n"
        for path, flags in self._files:
            # No container start waits for the reader of a pipe.
            if _append(path, line.encode(), flags | posix.O_NONBLOCK):
                return


def _append(path: str, line: bytes, flags: int = 0) -> bool:
    try:
        append_to_file(path, line, flags=flags)
    except OSError:
        return False
    return True


def _log_line(log_format: str, text: str) -> bytes:
    if log_format == "json":
        return dumps({"level": "error", "msg": text, "time": _now()}) + b"\n"
    return f"time={_now()} level=error msg={dumps(text).decode()}\n".encode()


def _now() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
