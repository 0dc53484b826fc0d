"""Read a layer with what Python brings: slowly, and without zstd before Python 3.14."""

from __future__ import annotations

import tarfile
import zlib
from lzma import LZMAError

from amd_ctk.image.contents import LayerContents
from amd_ctk.image.deep import ELF, targets_in_program
from amd_ctk.image.errors import ImageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amd_ctk.image.bounds import Counter
    from amd_ctk.image.compression import Beginning

MODES = {"none": "r|", "gzip": "r|gz", "xz": "r|xz", "bzip2": "r|bz2"}
# Headers whose content tarfile reads as a whole.
LONG_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
LARGEST_HEADER = 1024 * 1024
CHUNK = 1 << 18


class BoundedHeader(tarfile.TarInfo):
    """A header that cannot make tarfile read any amount at once."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> BoundedHeader:
        """Read a header; ReadError for one that is larger than any name."""
        made = super().frombuf(buf, encoding, errors)
        if made.type in LONG_HEADERS and made.size > LARGEST_HEADER:
            raise tarfile.ReadError("a name in it is longer than 1 MiB")
        return made


def read(file: Beginning, compression: str, counter: Counter, deep: bool) -> LayerContents:
    """Return what a layer says; ImageError where it cannot be read."""
    if compression not in MODES:
        raise ImageError(
            f"a layer is compressed with {compression}, which this Python cannot read",
            hint="copy the image with 'skopeo copy --dest-compress-format=gzip', or use amd-ctk[image] from pip",
        )
    layer = LayerContents()
    try:
        with tarfile.open(fileobj=file, mode=MODES[compression], tarinfo=BoundedHeader) as archive:  # type: ignore[call-overload]
            for member in archive:
                counter.count(1, member.size)
                # tarfile keeps every header that it has read.
                archive.members = []
                if member.isfile() or member.islnk():
                    layer.add(member.name, _find_inside(archive, member) if deep else ())
    except (tarfile.TarError, EOFError, OSError, zlib.error, LZMAError, ValueError) as error:
        raise ImageError(f"a layer is damaged: {error}") from error
    return layer


def _find_inside(archive: tarfile.TarFile, member: tarfile.TarInfo) -> set[str]:
    file = archive.extractfile(member) if member.isreg() else None
    start = file.read(len(ELF)) if file else b""
    return targets_in_program(_chunks(file)) if file and start == ELF else set()


def _chunks(file: object) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):  # type: ignore[attr-defined]
        yield chunk
