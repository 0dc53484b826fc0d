"""The OCI bundle a container is made from: its config.json."""

from __future__ import annotations

import posix

from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import behind_links, put_in_place, write_beside
from amdgpu_discovery.oci_spec import read_spec
from amdgpu_discovery.plain_json import dumps


class Bundle:
    """A bundle's config.json: read once, edited in `spec`, written beside and put in place.

    Errors are FileError and name the file.
    """

    __slots__ = ("_temporary", "path", "spec")

    def __init__(self, directory: str, config: str = "config.json") -> None:
        self.path = behind_links(config if config.startswith("/") else f"{directory}/{config}")
        self.spec = read_spec(
            self.path, name=f"the bundle's {self.path}", hint="name the bundle's directory with --bundle"
        )
        self._temporary = ""

    def write(self) -> None:
        """Write the edited spec beside the file, so that a full disk is noticed before anything else is done."""
        try:
            self._temporary = write_beside(self.path, dumps(self.spec), durable=False)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {reason(error)}") from error
        except (ValueError, RecursionError) as error:
            # Read it can be: 1e999 is infinity to python, and reading goes a little deeper than writing.
            raise FileError(f"the bundle's {self.path} holds what cannot be written again: {error}") from error

    def commit(self) -> None:
        """Put what `write` wrote, if it was called, in place of config.json."""
        temporary, self._temporary = self._temporary, ""
        try:
            if temporary:
                put_in_place(temporary, self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be replaced: {reason(error)}") from error

    def discard(self) -> None:
        """Forget what `write` wrote and `commit` did not take; config.json is as it was."""
        if self._temporary:
            posix.unlink(self._temporary)
            self._temporary = ""
