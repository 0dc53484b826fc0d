"""Directives that a daemon's command line sets, so that its configuration file must not.

dockerd does not start where a directive stands in both, and `dockerd --validate` cannot know the command line.
"""

from __future__ import annotations

from amd_ctk.configuration.unit_files import CommandLine, read_command_line
from amd_ctk.documents.document import ABSENT, Document
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.config_file import ConfigFile
    from amd_ctk.configuration.engine import Engine
    from amdgpu_discovery.host import Host


class DirectiveTaken(ToolkitError):
    """The daemon's command line already sets what its configuration file was to set."""


def read_daemon_options(engine: Engine, file: ConfigFile, host: Host) -> CommandLine:
    """Return what the unit of an engine's daemon runs; an empty one for a file that is not that daemon's."""
    if not engine.exclusive_options or file.shown != engine.config_path:
        return CommandLine()
    return read_command_line(host, f"{engine.service}.service")


def refuse_taken_directives(
    engine: Engine, file: ConfigFile, options: CommandLine, *, old: Document, new: Document
) -> None:
    """Return if none of the directives that an edit changes is on the daemon's command line too; DirectiveTaken."""
    for directive, option in engine.exclusive_options:
        values = options.values_of(option)
        written = new.get((directive,))
        if values and written is not ABSENT and written != old.get((directive,)):
            raise DirectiveTaken(
                f"{options.unit} has {option}={values[0]} on its command line, and {engine.service} does not start "
                f'while {file.shown} has "{directive}" too',
                hint=f"nothing was changed; remove {option} from the unit or its environment file first",
            )
