"""When accounts expire, by the host's /etc/shadow. Accounts of other sources, such as LDAP, are not known to expire."""

from __future__ import annotations

from collections.abc import Iterator

from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.usage.people import read_user_names

SHADOW = "/etc/shadow"
# Accounts take some hundred bytes each, and read_user_names reads as many names.
LARGEST_SHADOW = 16 * 1024 * 1024
# Of nine fields in shadow(5): the name, and the day since 1970 (UTC) on which the account has expired.
NAME, EXPIRES, FIELDS = 0, 7, 9
DAY = 24 * 3600
MOST_DAYS = 1_000_000


def read_expiries(host: Host) -> dict[int, int]:
    """Return by uid when accounts but root's expire, in seconds since 1970 (UTC); none for those who may not know."""
    try:
        content = read_plain_file(host.path(SHADOW), largest=LARGEST_SHADOW)[0]
    except OSError:
        return {}
    days = dict(_parse(content.decode("utf-8", "replace")))
    # Most hosts have no such account.
    names = read_user_names(host) if days else {}
    return {uid: days[name] * DAY for uid, name in names.items() if uid and name in days}


def _parse(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        fields = line.split(":")
        day = fields[EXPIRES] if len(fields) == FIELDS else ""
        if day.isascii() and day.isdecimal() and len(day) <= len(str(MOST_DAYS)):
            yield fields[NAME], int(day)
