"""Change an engine's configuration, or preview the change; let the engine check it, and restart the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from amd_ctk.configuration.edit import Edit, EngineEdit, prepare_edit, save
from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.ledger import Ledger, Record, ledger_directory, open_ledger
from amd_ctk.configuration.own_file import find_own_file
from amd_ctk.configuration.unit_files import read_daemon_options, refuse_conflicting_directives
from amdgpu_discovery.command_line.edited import ConfigFile
from amdgpu_discovery.command_line.programs import runs_systemd
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RELOAD_SECONDS = 30
HINT = "nothing was changed; use --no-validate to skip this check"


class RefusedByEngine(ToolkitError):
    """The engine would not start with the new configuration."""


def check(engine: Engine, text: str, path: str, *, program: str = "") -> None:
    """Raise RefusedByEngine if the engine is installed and rejects `text` as its file `path`.

    If the engine prints the configuration as it understood it, `program` must be in it.
    """
    refusal, printed = ask_engine(engine, text, path)
    if refusal:
        raise RefusedByEngine(f"{engine.name} refuses the new {path}: {refusal}", hint=HINT)
    if engine.check_prints_configuration and printed is not None and program not in printed:
        raise RefusedByEngine(
            f"{engine.name} does not list the runtime when it reads the new {path}",
            hint="it may be too old for the version of the file, or a file imported there replaces the same section",
        )


def ask_engine(engine: Engine, text: str, path: str) -> tuple[str, str | None]:
    """Return why an engine refuses `text` as its file `path`, "" if it does not, and the configuration that it prints.

    The latter is None if the engine is not installed, cannot check a file or refuses it.
    """
    if engine.check_command is None or shutil.which(engine.check_command(path)[0]) is None:
        return "", None
    # Imported here, because most commands only look.
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="amd-ctk-") as directory:
        file = os.path.join(directory, os.path.basename(path))
        with open(file, "w", encoding="utf-8", newline="") as copy:
            copy.write(engine.checked_text(text))
        accepted, output = _run(engine.check_command(file))
    if accepted:
        return "", output
    if engine.check_unknown and engine.check_unknown in output:
        return "", None
    return output.strip().splitlines()[-1].replace(file, path), None


def _run(command: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether the engine accepts a file, and its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RELOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {RELOAD_SECONDS} seconds"
    except OSError as error:
        return False, f"it cannot be run: {error.strerror}"
    if done.returncode == 0:
        return True, done.stdout
    return False, done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"


class Target(Value):
    """A configuration file of a host, and the engine that reads this file.

    `refusal` is why nothing is added to this file; None if that is possible.
    """

    host: Host
    engine: Engine
    file: ConfigFile
    refusal: ToolkitError | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Return whether this is not the file that the engine reads by default."""
        return self.file.shown != self.engine.config_path


def find_target(host: Host, engine: Engine, config_path: str) -> Target:
    """Return the configuration file to edit; `config_path` "" means the one that the engine's daemon reads."""
    if config_path:
        return _target(host, engine, host.given(config_path))
    own = find_own_file(host, engine)
    if own.path != engine.config_path:
        return _target(host, engine, own.path).replace(refusal=own.refusal)
    engine = engine.on_host(host) if engine.on_host else engine
    return _target(host, engine, engine.config_path)


def _target(host: Host, engine: Engine, shown: str) -> Target:
    return Target(host=host, engine=engine, file=ConfigFile(path=host.path(shown), shown=shown))


def prepare(
    target: Target, edit: Edit, record: Record, *, validate: bool, adds: bool = True, program: str = ""
) -> EngineEdit:
    """Prepare an edit and let the engine check it; ToolkitError if the engine would not start with it.

    `adds` is False for an edit that only removes. `program` must be in the configuration that the engine prints.
    """
    engine, file = target.engine, target.file
    if adds and target.refusal:
        raise target.refusal
    edited = prepare_edit(engine, file, edit, record)
    if not edited.changed or edited.new is None:
        return edited
    if adds:
        old = engine.read(engine.new_text if edited.old is None else edited.old)
        options = read_daemon_options(engine, file, target.host)
        refuse_conflicting_directives(engine, file, options, old=old, new=engine.read(edited.new))
    if validate:
        check(engine, edited.new, file.shown, program=program)
    return edited


def preview(
    target: Target, prepare_change: Callable[[Record], EngineEdit], environment: Mapping[str, str]
) -> EngineEdit:
    """Return what a change would do, without making it."""
    ledger = Ledger(ledger_directory(target.host, environment))
    return prepare_change(ledger.get(target.file.shown))


def apply(
    target: Target,
    prepare_change: Callable[[Record], EngineEdit],
    environment: Mapping[str, str],
    *,
    before_saving: Callable[[], None] = lambda: None,
) -> EngineEdit:
    """Make the change that `prepare_change` returns for the file's record. A ToolkitError leaves everything unchanged.

    `before_saving` is called once the change is known to be possible, even if there is nothing to write.
    """
    with open_ledger(target.host, environment) as ledger:
        record = ledger.get(target.file.shown)
        edited = prepare_change(record)
        before_saving()
        if edited.changed:
            save(edited, ledger)
        elif edited.record != record:
            ledger.put(target.file.shown, edited.record)
    return edited


class RestartError(ToolkitError):
    """The engine could not be restarted, but its configuration is changed."""


def restart_command(host: Host, service: str) -> list[str]:
    """Return the command that restarts a service of a host."""
    return ["systemctl", "restart", service] if runs_systemd(host) else ["service", service, "restart"]


def restart(command: list[str], service: str) -> None:
    """Run the command that restarts a service; RestartError."""
    hint = f"its configuration is changed; 'sudo {' '.join(command)}' restarts it"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RestartError(f"{service} was not restarted: {command[0]} cannot be run", hint=hint) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise RestartError(f"{service} was not restarted: {lines[0]}", hint=hint)
