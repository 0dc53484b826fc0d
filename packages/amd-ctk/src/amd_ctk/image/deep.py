"""Find the targets of code inside programs and libraries: HIP puts a bundle of code objects into each ELF file.

clang names each object of a bundle by its triple and target (LLVM, "Clang Offload Bundler"). A compressed bundle (magic
"CCOB") has no names that can be read.
"""

from __future__ import annotations

import re

from amd_ctk.image.names import TARGET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ELF = b"\x7fELF"
BUNDLED = re.compile(rb"amdgcn-amd-amdhsa-(?:unknown)?-(gfx[0-9a-f-]{3,12}(?:generic)?)")
# Longer than any name in a bundle, so that none is lost between two chunks.
LONGEST_NAME = 128


def targets_in_program(chunks: Iterable[bytes]) -> set[str]:
    """Return the targets in a program's bundles, from its content in pieces."""
    found: set[bytes] = set()
    rest = b""
    for chunk in chunks:
        text = rest + chunk
        found.update(BUNDLED.findall(text))
        rest = text[-LONGEST_NAME:]
    return {match.group() for name in found if (match := TARGET.match(name.decode("ascii")))}
