"""What stands in a bundle, and how much of it there may be."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError

README = "README"
REPORT = "doctor.json"
PROFILE = "profile.json"
FACTS = "facts.json"
LOG = "amd-container-runtime.log"
# Files of the host, below their path there.
FILES = "files"
LARGEST_MEMBER = 1024 * 1024
MOST_MEMBERS = 64
# Of the whole archive, packed and unpacked.
LARGEST_PACKED = 4 * 1024 * 1024
LARGEST_UNPACKED = 16 * 1024 * 1024


class BundleError(ToolkitError):
    """A bundle that cannot be written or understood."""

    exit_code = 2
