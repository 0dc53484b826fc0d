"""Keep the options of `amd-ctk cdi generate` for each file, so that `amd-ctk cdi refresh` can repeat the command."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from amd_device_spec.cdi import STRATEGIES
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.cdi.text import FORMATS
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import make_directories, remove_file, replace_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# The default directories of engines.
SPEC_DIRECTORIES = ("/etc/cdi", "/run/cdi")
DEFAULT_OUTPUT = "/etc/cdi/amd.json"
# One file for each output, so that two simultaneous commands cannot overwrite each other's options.
OPTIONS_DIRECTORY = "/var/lib/amd-container-toolkit/cdi"
LONGEST_OPTIONS_NAME = 200


class CdiError(ToolkitError):
    """A CDI spec cannot be made, written or read."""


class GenerateOptions(Value):
    """A file that `amd-ctk cdi generate` writes, and the options of the command."""

    # The absolute path on its host, which may be a simulated one.
    output: str
    language: str
    options: CdiOptions

    def path(self, host: Host) -> str:
        """Return the path of the file on this machine."""
        return host.path(self.output)


def name_output(host: Host, output: str) -> str:
    """Return the absolute `output` for a path from the user; "" is the default."""
    return host.given(output) if output else DEFAULT_OUTPUT


def save_generate_options(host: Host, wanted: GenerateOptions) -> None:
    """Keep the options for the next refresh; FileError, CdiError."""
    fields = {**wanted.as_dict(), "options": wanted.options.as_dict()}
    path = host.path(_path_of(wanted.output))
    try:
        make_directories(os.path.dirname(path))
    except OSError as error:
        raise CdiError(f"{os.path.dirname(path)} cannot be made: {reason(error)}") from error
    replace_file(path, (json.dumps(fields, indent=2) + "\n").encode(), durable=True)


def delete_generate_options(host: Host, output: str) -> bool:
    """Stop refreshing a file; return whether it was refreshed until now."""
    try:
        remove_file(host.path(_path_of(output)))
    except FileNotFoundError:
        return False
    return True


def read_all_generate_options(host: Host) -> list[GenerateOptions]:
    """Return the options of all generated files, sorted by output; CdiError if any cannot be read."""
    names = sorted(name for name in host.names(OPTIONS_DIRECTORY) if name.endswith(".json"))
    return sorted((_read(host, f"{OPTIONS_DIRECTORY}/{name}") for name in names), key=lambda wanted: wanted.output)


def find_generate_options(host: Host, output: str) -> GenerateOptions | None:
    """Return the options of a generated file, under either of its names; None if it was not generated."""
    path = next((path for path in map(_path_of, _names_of(output)) if host.stat(path)), "")
    return _read(host, path) if path else None


def _names_of(output: str) -> tuple[str, ...]:
    # /var/run is a link to /run.
    other = f"/var{output}" if output.startswith("/run/") else output.removeprefix("/var")
    return (output, other) if other.startswith(("/run/", "/var/run/")) else (output,)


def _path_of(output: str) -> str:
    name = quote(os.fsencode(output), safe="")
    if len(name) > LONGEST_OPTIONS_NAME:
        # Imported here because it loads OpenSSL, which takes as long as everything else here.
        import hashlib

        name = f"{name[:100]}@{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{OPTIONS_DIRECTORY}/{name}.json"


def _read(host: Host, path: str) -> GenerateOptions:
    try:
        return _parse(json.loads(host.read(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        words = reason(error) if isinstance(error, OSError) else "it is not what amd-ctk writes"
        raise CdiError(
            f"{host.path(path)}, which says how a CDI spec was generated, cannot be read: {words}",
            hint="remove it and run 'sudo amd-ctk cdi generate' again",
        ) from error


def _parse(fields: dict[str, Any]) -> GenerateOptions:
    wanted = GenerateOptions.from_json(fields, {"CdiOptions": CdiOptions})
    options = wanted.options
    is_known = fields["options"].keys() <= options.as_dict().keys() and options.name_strategy in STRATEGIES
    if not is_known or wanted.language not in FORMATS:
        raise ValueError(fields)
    # The kernel accepts only paths without NUL, and fsencode rejects lone surrogates.
    if not wanted.output.startswith("/") or b"\0" in os.fsencode(wanted.output):
        raise ValueError(wanted.output)
    return wanted
