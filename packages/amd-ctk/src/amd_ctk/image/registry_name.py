"""How images in registries are named, as engines read them: [REGISTRY/]REPOSITORY[:TAG][@DIGEST]."""

from __future__ import annotations

import hashlib
import re

from amd_ctk.image.bounds import ImageError
from amdgpu_discovery.value import Value

# Of distribution/reference, "Grammar"; the first part is a registry if it has a "." or ":", or is localhost.
PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
NAME = re.compile(
    r"(?P<repository>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?" + rf"{PART}(?:/{PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
# What stands before a registry where a password was written into a name, which no program takes.
LOGIN = re.compile(r"^(?:\w+://)?[^@]*:.*@(?!sha\d+:)")
LONGEST = 512
DOCKER_HUB = "docker.io"
# How the image proxy, in place of a registry, begins a refusal.
REFUSED_BY_PROXY = "no image for this host: "


class RegistryName(Value):
    """An image in a registry: its repository as it was written, and the tag or the digest ("" where it has none)."""

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """Return it as programs take it: skopeo refuses a tag beside a digest, which decides anyway."""
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag}" if self.tag else self.repository

    @property
    def registry(self) -> str:
        """Return the registry, Docker's where the name has none."""
        first, slash, _ = self.repository.partition("/")
        return first if slash and (first == "localhost" or set(first) & set(".:")) else DOCKER_HUB

    def at(self, digest: str) -> RegistryName:
        """Return what has this digest in the same repository."""
        return RegistryName(repository=self.repository, digest=digest)


def is_registry_name(text: str) -> bool:
    """Return whether a text is of this form."""
    return len(text) <= LONGEST and NAME.fullmatch(text) is not None


def parse_registry_name(text: str) -> RegistryName:
    """Read the name of an image in a registry; ImageError."""
    match = NAME.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        hint = "write [REGISTRY/]REPOSITORY[:TAG] or [REGISTRY/]REPOSITORY@sha256:..."
        raise ImageError(f"{without_login(text)[:LONGEST]} does not name an image in a registry", hint=hint)
    return RegistryName(repository=match["repository"], tag=match["tag"] or "", digest=match["digest"] or "")


def without_login(text: str) -> str:
    """Return what was given as a name without the password in it, to show it."""
    return LOGIN.sub("...@", text)


def digest_of(content: bytes) -> str:
    """Return the digest by which registries know a document."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
