"""Become another user, in a child process."""

from __future__ import annotations

import os
from collections.abc import Sequence


def become(uid: int, groups: Sequence[int] = ()) -> None:
    """Become another user permanently."""
    os.setgroups(list(groups))
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
