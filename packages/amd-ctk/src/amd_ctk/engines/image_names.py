"""The names of users and groups in an image, from the layers that its engine keeps on this machine.

An engine looks a name up in the image's /etc/passwd and /etc/group, and does not start the container without it.
Source: GetExecUser of opencontainers' runc, libcontainer/user.
"""

from __future__ import annotations

import os

from amd_ctk.engines.engine_words import KEEP_GROUPS, read_id
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

USERS_FILE = "etc/passwd"
GROUPS_FILE = "etc/group"
LARGEST_NAME_FILE = 1024 * 1024
MOST_MOUNTED_LAYERS = 128


class Named(Value):
    """A user with the id of its group, or a group with its own; `members` are the names of a group's users."""

    name: str
    number: int
    gid: int
    members: tuple[str, ...] = ()


class ImageNames(Value):
    """The users and groups of an image, in the order of its files."""

    users: tuple[Named, ...] = ()
    groups: tuple[Named, ...] = ()


class ResolvedUser(Value):
    """A user as numbers, the groups besides, and why the engine does not start the container, "" if it does."""

    user: str
    groups: tuple[str, ...]
    refusal: str = ""


def read_names(graph_driver: dict[str, Any]) -> ImageNames | None:
    """Return the names of an image by its `GraphDriver`; None if its layers cannot be read here."""
    known = graph_driver.get("Data")
    layers = [str(known.get(key) or "") for key in ("UpperDir", "LowerDir")] if isinstance(known, dict) else []
    directories = [each for layer in layers for each in layer.split(":") if each.startswith("/")][:MOST_MOUNTED_LAYERS]
    try:
        return ImageNames(
            users=tuple(_parse(_read_first(directories, USERS_FILE), gid_at=3)),
            groups=tuple(_parse(_read_first(directories, GROUPS_FILE), gid_at=2)),
        )
    except OSError:
        return None


def resolve_user(user: str, groups: Sequence[str], names: ImageNames, *, is_podman: bool = False) -> ResolvedUser:
    """Return the user and the groups of a container by their numbers, as its engine finds them in the image."""
    name, _, group = user.partition(":")
    found = _find(name, names.users) if name else Named(name="root", number=0, gid=0)
    gid = _find(group, names.groups) if group else None
    added = {each: _find(each, names.groups) for each in groups if each != KEEP_GROUPS}
    if found is None:
        refusal = f"unable to find user {name}: no matching entries in passwd file"
    else:
        missing = [group] * (bool(group) and gid is None) + [each for each, known in added.items() if known is None]
        refusal = f"unable to find group {missing[0]}: no matching entries in group file" if missing else ""
    if found is None or refusal:
        return ResolvedUser(user=user, groups=tuple(groups), refusal=refusal)
    # Without a group, the user has those of the image that list it.
    has_group = ":" in user if is_podman else bool(group)
    of_user = [] if has_group else [each for each in names.groups if found.name in each.members]
    numbers = [each.number for each in (*added.values(), *of_user) if each]
    kept = [KEEP_GROUPS] * (KEEP_GROUPS in groups)
    own_gid = gid.number if gid else found.gid
    return ResolvedUser(
        user=f"{found.number}:{own_gid}" if user or found.gid else "",
        groups=(*kept, *map(str, dict.fromkeys(numbers))),
    )


def _find(word: str, entries: Iterable[Named]) -> Named | None:
    """Return the entry with a name or a number; a number needs none."""
    number = read_id(word)
    for entry in entries:
        if word == entry.name or number == entry.number:
            return entry
    return None if number is None else Named(name="", number=number, gid=0)


def _read_first(directories: Sequence[str], name: str) -> str:
    """Return a file of the uppermost layer that has it; OSError if none has, or if a link leads out of the layer."""
    for directory in map(os.path.realpath, directories):
        path = f"{directory}/{name}"
        if os.path.lexists(path):
            # The image's author chose where its links lead.
            if os.path.realpath(path) != path:
                break
            return read_plain_file(path, largest=LARGEST_NAME_FILE)[0].decode("utf-8", "replace")
    raise FileNotFoundError(name)


def _parse(text: str, *, gid_at: int) -> Iterator[Named]:
    for line in text.splitlines():
        fields = [*line.strip().split(":"), "", "", "", ""]
        number, gid = fields[2], fields[gid_at]
        if fields[0] and None not in (read_id(number), read_id(gid)):
            members = tuple(filter(None, fields[3].split(","))) if gid_at == 2 else ()
            yield Named(name=fields[0], number=int(number), gid=int(gid), members=members)
