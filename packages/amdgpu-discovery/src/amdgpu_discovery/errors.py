"""The common form of all expected failures."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ToolkitError(Exception):
    """An expected failure; the hint suggests what to do.

    Programs catch this class in one place, print it and end with `exit_code`. Anything else is a bug and shows its
    traceback.

    Attributes:
        message: One clause that names the thing and what is wrong with it.
        hint: What to do next; "" if there is nothing to suggest.
        exit_code: Exit code of the program; each class has its own.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def told(self, name_of: Callable[[int], str]) -> ToolkitError:  # noqa: ARG002 - errors about people use it
        """Return the same error with the names of people from `name_of`."""
        return self

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class DriverUnavailable(ToolkitError):
    """The amdgpu driver is not loaded, so no GPU can be found."""


class GpusHidden(ToolkitError):
    """The device cgroup of this process hides GPUs, so it must not act for the whole host."""

    def __init__(self, hidden: int, total: int) -> None:
        """Report that `hidden` of the `total` GPUs of the host are hidden."""
        super().__init__(
            f"{hidden} of {total} GPUs {'is' if hidden == 1 else 'are'} hidden from this process by its device cgroup",
            hint="run it outside the job, container or unit that limits the process",
        )


class DeviceNodeError(ToolkitError):
    """A device node or its number is missing, or differs from the driver's.

    Attributes:
        path: Path of the node.
        is_missing: Whether the node does not exist.
        is_left_over: Whether the node has another number, from an earlier boot.
        is_directory: Whether a directory is in its place.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str,
        is_missing: bool = False,
        is_left_over: bool = False,
        is_directory: bool = False,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.is_missing = is_missing
        self.is_left_over = is_left_over
        self.is_directory = is_directory


class RequestError(ToolkitError):
    """A request for GPUs that this host cannot meet as it is written.

    Attributes:
        variable: The environment variable with the request, "" for requests from elsewhere.
        names_hidden: Whether the request names GPUs of this host that this process may not use.
    """

    exit_code = 4
    variable = ""
    names_hidden = False


class SpecError(ToolkitError):
    """A spec with a structure that no engine writes; `message` says what is wrong without naming the file."""

    exit_code = 6


class FileError(ToolkitError):
    """A file that cannot be read or written."""

    exit_code = 5


def reason(error: Exception) -> str:
    """Return why an operation failed, in words that no container engine mistakes for its own.

    Docker turns messages that contain "no such file or directory" into exit code 127 and "permission denied" into 126.
    """
    import errno

    if not isinstance(error, OSError):
        return error.message if isinstance(error, ToolkitError) else str(error)
    words = {
        errno.ENOENT: "it does not exist",
        errno.EACCES: "access is refused",
        errno.EPERM: "the operation is refused",
        errno.EROFS: "the file system is read-only",
        errno.ENOSPC: "the disk is full",
        errno.EISDIR: "it is a directory",
        errno.ENOTDIR: "a part of its path is not a directory",
        errno.ELOOP: "it is a symbolic link",
    }
    return words.get(error.errno or 0, error.strerror or str(error))
