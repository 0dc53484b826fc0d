"""Private names of jobs: files have a word in place of the name, which only somebody who knows the name can find.

All users may read leases, tickets and the history, and all lists, refusals and metrics come from these files. So a
private name never gets there. A secret that only root can read keeps other users from trying names.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from amd_gpu_sharing.broker.requests.protocol import FOR_GPUS, Request
from amd_gpu_tracker.book.state import State
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file

KEY_FILE = "job-names.secret"
SECRET_BYTES = 32
PREFIX = "job-"
# With 8 bits each, two names of one user get the same word once in a million million.
HASH_BYTES = 5


class JobNames:
    """Names of jobs in files.

    `has(owner, name)` returns whether a job exists, and `has(0, name, person)` whether this person made one with sudo.
    A job keeps its name in files as long as it exists, even if names become private or public meanwhile.
    """

    def __init__(self, state: State, has: Callable[..., bool]) -> None:
        self._key_path = f"{state.run_directory}/{KEY_FILE}"
        self._has = has
        self._secret = b""
        self.are_private = False

    def hide(self, request: Request, uid: int, owner: int | None) -> Request:
        """Return the request of user `uid` with the names that its jobs have in files; FileError.

        `owner` is the owner of the reservation, None for any user.
        """
        if not self.are_private and not os.access(self._key_path, os.R_OK):
            return request
        is_new = request.verb in FOR_GPUS
        name = self._name(uid if is_new or owner is None else owner, request.name, is_new=is_new)
        inside = request.reservation and self._name(uid if owner is None else owner, request.reservation, is_new=False)
        return request.replace(name=name, reservation=inside)

    def _name(self, owner: int, name: str, *, is_new: bool) -> str:
        """Return a job's name in files; `name` may be that already, copied from a list, and sudo may have been used."""
        word = self._hashed_name(owner, name)
        found = next((each for each in (word, name) if self._has(owner, each)), "")
        if found or is_new:
            return found or (word if self.are_private else name)
        by_sudo = self._hashed_name(0, name)
        return by_sudo if self._has(0, by_sudo, owner) else name

    def _hashed_name(self, owner: int, name: str) -> str:
        # Imported here, only for private names: it loads OpenSSL.
        from hashlib import blake2s

        self._secret = self._secret or self._read_secret()
        return PREFIX + blake2s(f"{owner}/{name}".encode(), key=self._secret, digest_size=HASH_BYTES).hexdigest()

    def _read_secret(self) -> bytes:
        try:
            return read_plain_file(self._key_path, largest=SECRET_BYTES)[0]
        except FileNotFoundError:
            secret = os.urandom(SECRET_BYTES)
            replace_file(self._key_path, secret, mode=0o600)
            return secret
