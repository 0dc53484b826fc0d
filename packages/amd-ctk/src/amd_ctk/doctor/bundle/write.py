"""Write a bundle: doctor's report, settings, specs, the last lines of the log, and the host as a profile.

It has no environment, no credentials, and no unique ids unless the user wants them.
"""

from __future__ import annotations

import errno
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amd_ctk.cdi.generate_options import SPEC_DIRECTORIES
from amd_ctk.doctor.bundle.read import FACTS, LARGEST_MEMBER, MOST_BUNDLE_FILES, BundleError
from amd_ctk.doctor.bundle.redact import Redaction, read_serials, serials_of, without_credentials
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.run import Result, format_json
from amd_device_spec.cdi import KIND
from amd_device_spec.cdi.text import BrokenText, parse_spec
from amd_device_spec.cdi.validate import form_problems
from amd_device_spec.settings import CONFIG_FILE, is_setting
from amdgpu_discovery.command_line.toml_document import TomlDocument
from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.files import exists, is_file, write_new_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording import Profile, record_profile
from amdgpu_discovery.recording.profile_json import format_profile
from amdgpu_discovery.recording.record import FIRST_PLACEHOLDER, without_serials
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.usage.people import behind_sudo
from amdgpu_discovery.value import Value

# A container can have 100,000 mounts. Checks look at the first item of a list, or at all GPUs.
MOST_ITEMS = 1024
README = "README"
REPORT = "doctor.json"
PROFILE = "profile.json"
LOG = "amd-container-runtime.log"
# In the bundle, files of the host are below this, at their paths on the host.
FILES = "files"
LOG_FILE = "/var/log/amd-container-runtime.log"
MOST_LINES = 200
LAST_BYTES = 64 * 1024
TEXT = """\
A bundle of 'amd-ctk doctor --bundle'. See the same findings elsewhere with

  amd-ctk doctor --replay THIS-FILE

or build its GPUs and serve them to any program of the toolkit with AMD_CTK_HOST_ROOT=DIR:

  amd-ctk simulate build ./profile.json DIR
"""


def write_bundle(host: Host, facts: Facts, results: Sequence[Result], path: str, *, with_serials: bool = False) -> None:
    """Write the facts and results of a host to an archive; BundleError."""
    if exists(path) and not is_file(path):  # root would replace /dev/null
        raise BundleError(f"the bundle cannot be written: {path} is not a file", hint="name a new file")
    profile, hide = _record(host, with_serials=with_serials)
    members: dict[str, str] = {README: TEXT, REPORT: format_json(results), LOG: _last_lines(host)}
    members |= {FACTS: _format(format_facts(facts, with_serials=with_serials)), **dict(_settings(host))}
    for directory in SPEC_DIRECTORIES:
        for name in sorted(host.names(directory))[: MOST_BUNDLE_FILES // 4]:
            members |= _spec(host, f"{directory}/{name}")
    content = {name: hide(text).encode()[:LARGEST_MEMBER] for name, text in members.items()}
    if profile is not None:
        content[PROFILE] = format_profile(profile)
    try:
        # The user reads and sends this file.
        write_new_file(path, _pack(content), mode=0o600, owner=behind_sudo(os.environ))
    except FileError as error:
        raise BundleError(f"the bundle cannot be written: {error.message}") from error


def _record(host: Host, *, with_serials: bool) -> tuple[Profile | None, Callable[[str], str]]:
    """Return the host as a profile, None if it cannot be recorded, and a function that hides its ids in text."""
    try:
        real = record_profile(host, "bundle", with_serials=True)
        redacted = without_serials(real)
    except (ToolkitError, OSError):
        real, redacted = None, None
    if with_serials:
        return real, without_credentials
    known = serials_of(real, redacted) if real and redacted else []
    # A GPU that discovery does not understand is in no profile, but its id may be in a spec.
    return redacted, Redaction([*read_serials(host, FIRST_PLACEHOLDER + len(known)), *known])


def _settings(host: Host) -> Iterator[tuple[str, str]]:
    """Yield the toolkit's settings, without comments and without anything else in the file."""
    try:
        written = TomlDocument(_read(host, CONFIG_FILE).decode()).get(())
    except (ValueError, RecursionError, ToolkitError):
        # The report has the reason.
        return
    # JSON's values are TOML too.
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in written.items() if is_setting(name)]
    if lines:
        yield f"{FILES}{CONFIG_FILE}", "".join(lines)


def _spec(host: Host, path: str) -> Iterator[tuple[str, str]]:
    """Yield a CDI spec of the toolkit's own kind as JSON, without the values of variables and annotations."""
    try:
        tree = parse_spec(_read(host, path)).tree
    except BrokenText:
        # The report has the reason. Secrets in such a file cannot be recognised.
        return
    # Other specs, and those that engines ignore, may contain anything.
    if not form_problems(tree) and tree["kind"] == KIND:
        yield f"{FILES}{path}", _format(_without_values(tree))


def _without_values(part: Any, key: str = "") -> Any:
    if isinstance(part, dict) and key == "annotations":
        return dict.fromkeys(map(str, part), "***")
    if isinstance(part, dict):
        return {str(name): _without_values(inner, str(name)) for name, inner in part.items()}
    if isinstance(part, list):
        return [_without_values(inner, key) for inner in part]
    return f"{str(part).partition('=')[0]}=***" if key == "env" else part


def _read(host: Host, path: str) -> bytes:
    try:
        return read_plain_file(host.path(path), largest=LARGEST_MEMBER)[0]
    except OSError:
        return b""


def _last_lines(host: Host) -> str:
    try:
        if not is_file(host.path(LOG_FILE)):
            raise FileNotFoundError(errno.ENOENT, "it does not exist")
        with open(host.path(LOG_FILE), "rb") as file:
            file.seek(max(0, file.seek(0, 2) - LAST_BYTES))
            lines = file.read(LAST_BYTES).decode("utf-8", "replace").splitlines()[-MOST_LINES:]
    except OSError as error:
        return f"{LOG_FILE} cannot be read: {reason(error)}\n"
    return "".join(f"{line}\n" for line in lines)


def _format(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _pack(content: dict[str, bytes]) -> bytes:
    """Return an archive; the same content gives the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(content.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def format_value(value: object) -> Any:
    """Return a value in JSON's types. Lists are cut to MOST_ITEMS."""
    if isinstance(value, Value):
        return {name: format_value(field) for name, field in value.as_dict().items()}
    if isinstance(value, tuple):
        return [format_value(item) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name): format_value(item) for name, item in value.items()}
    return value


def format_facts(facts: Facts, *, with_serials: bool) -> dict[str, Any]:
    """Return facts in JSON's types. An XGMI hive id is a serial too, and no check needs it."""
    gpus = facts.gpus.gpus if with_serials else tuple(gpu.replace(xgmi_hive=None) for gpu in facts.gpus.gpus)
    document: dict[str, Any] = format_value(facts.replace(gpus=facts.gpus.replace(gpus=gpus)))
    return document
