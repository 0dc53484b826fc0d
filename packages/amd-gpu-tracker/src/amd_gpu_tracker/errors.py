"""The errors of the tracker."""

from __future__ import annotations

from amdgpu_discovery.errors import FileError, ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Message(Value):
    """A text that may name people. Whoever shows it looks up their names; a container start looks up none.

    Attributes:
        text: The text, in which `{1001}` stands for user 1001 if that is one of the people.
        people: The users whom it names.
    """

    text: str
    people: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.told(lambda uid: f"user {uid}")

    def told(self, name_of: Callable[[int], str]) -> str:
        """Return the text with the names of people from `name_of`."""
        text = self.text
        for uid in self.people:
            text = text.replace(placeholder(uid), name_of(uid))
        return text


def placeholder(uid: int | None) -> str:
    """Return what stands for the name of a user in the text of a message."""
    return f"{{{uid}}}"


class PeopleNamed(ToolkitError):
    """An error whose message may name people, by number until the names are looked up.

    Attributes:
        unnamed: The message without names.
    """

    def __init__(self, message: str | Message, *, hint: str = "") -> None:
        """Report what went wrong, and what to do next."""
        self.unnamed = Message(text=message) if isinstance(message, str) else message
        super().__init__(str(self.unnamed), hint=hint)


class GpusRefused(PeopleNamed):
    """GPUs that a container may not have, in the words of the GPU Tracker guide.

    Attributes:
        obstacle: Why a sufficient number of free GPUs cannot be used; "" if too few are free.
        doubts: Numbers of GPUs that nobody has and that are not given out, by reason.
    """

    def __init__(
        self, message: str | Message, *, hint: str = "", obstacle: str = "", doubts: Mapping[str, Sequence[int]] = {}
    ) -> None:
        """Report what is refused, and what to do next."""
        super().__init__(message, hint=hint)
        self.obstacle = obstacle
        self.doubts = doubts

    def told(self, name_of: Callable[[int], str]) -> GpusRefused:
        """Return the same refusal with the names of people from `name_of`."""
        return GpusRefused(self.unnamed.told(name_of), hint=self.hint)


class GpusChanged(ToolkitError):
    """The GPUs are not those whose accessibility was set, in the words of the guide.

    Attributes:
        gone: `GpuLocation.key` of the tracked GPUs that are missing or changed.
        living: A sentence for each container and job that is running on one of these, if that was checked.
    """

    def __init__(self, gone: Iterable[str] = (), living: tuple[str, ...] = ()) -> None:
        """Report which tracked GPUs are `gone`, and who is `living` on them."""
        super().__init__("GPUs info is invalid. Please reset GPU Tracker.")
        self.gone = frozenset(gone)
        self.living = living


class NumbersChanged(ToolkitError):
    """A request uses numbers that meant other GPUs before a tracked GPU was lost."""


class StateError(FileError):
    """A state file that cannot be understood; GPUs that it may be about are not given out until it is repaired.

    Attributes:
        gpus: `GpuLocation.key` of the GPUs that it is about; None if it may be about any.
        is_later: Whether a later version of the toolkit wrote it, so that there is nothing to repair.
    """

    def __init__(
        self, message: str, *, hint: str = "", gpus: tuple[str, ...] | None = None, is_later: bool = False
    ) -> None:
        """Report what is wrong, about which `gpus`, and whether the file `is_later` than this version."""
        super().__init__(message, hint=hint)
        self.gpus = gpus
        self.is_later = is_later


class NotPermitted(ToolkitError):
    """This user may not change the tracker in this way."""

    exit_code = 3


class ServiceMissing(ToolkitError):
    """Only the service that gives GPUs to users can do this, and it does not run on this host."""

    exit_code = 3

    def __init__(self, command: str = "sudo amd-ctk users allow NAME") -> None:
        """Suggest the command of the administrator that makes it run."""
        super().__init__(
            "users cannot reserve GPUs on this host", hint=f"the administrator enables it with '{command}'"
        )


class LockTimeout(ToolkitError):
    """The tracker's lock was not free within the time limit."""

    exit_code = 10


class NotDone(PeopleNamed):
    """The GPU Tracker did nothing, or not all, of what it should do; `gpu-tracker` prints why on standard output."""

    exit_code = 11


class TrackerDisabled(NotDone):
    """A reservation by the library while the GPU Tracker is disabled; it would have no effect."""

    def __init__(self) -> None:
        super().__init__(
            "the GPU Tracker is disabled, so no GPU can be reserved", hint="run 'sudo amd-ctk gpu-tracker enable'"
        )


class TrackerNeeded(TrackerDisabled):
    """A request that only the GPU Tracker can meet, because it depends on which GPUs are in use."""

    def __init__(self, word: str) -> None:
        """Report that `word` (auto, free) needs the tracker."""
        NotDone.__init__(self, f"{word} needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'")


class WaitRefused(ToolkitError):
    """A wait for GPUs cannot begin: its name or time is not valid, or the queue is full."""

    exit_code = 2


class WaitOver(ToolkitError):
    """A wait for GPUs ended without them: its time ran out, or the job was removed from the queue."""

    exit_code = 12


class ContainerRunning(ToolkitError):
    """A lease cannot be released or given again, because its container is running."""

    exit_code = 9


class OptionsExcluded(ToolkitError):
    """Options that exclude each other."""

    exit_code = 2

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second} exclude each other", hint="leave out one of them")


class OptionLacks(ToolkitError):
    """An option that has no meaning without another."""

    exit_code = 2

    def __init__(self, option: str, others: str, *, hint: str) -> None:
        super().__init__(f"{option} needs {others}", hint=hint)


def needs_root() -> NotPermitted:
    """Return the error for a change by a user who is not root."""
    return NotPermitted("changing the GPU Tracker needs root", hint="run the command with sudo")


def unreadable(path: str, why: str) -> StateError:
    """Return the error for a file of the tracker that cannot be read."""
    return StateError(
        f"the GPU Tracker's {path} cannot be read: {why}", hint="repair it with 'sudo amd-ctk gpu-tracker reset'"
    )


class SharingMissing(ToolkitError):
    """What was asked for is done by amd-gpu-sharing, which is not installed."""

    exit_code = 13

    def __init__(self) -> None:
        """Report what is missing."""
        super().__init__("amd-gpu-sharing is not installed", hint="it has the line of waiting jobs; install it")
