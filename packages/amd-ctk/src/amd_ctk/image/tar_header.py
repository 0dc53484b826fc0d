"""The headers of tar archives: what the blocks of 512 bytes in front of each file say.

POSIX.1-1988 (ustar), GNU tar and POSIX.1-2001 (pax); where they leave a choice it is made as in Go's archive/tar, with
which engines unpack layers.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import adler32

BLOCK = 512
NAME = slice(0, 100)
SIZE = slice(124, 136)
CHECKSUM = slice(148, 156)
KIND = 156
MAGIC = slice(257, 263)
# In POSIX's archives alone: what stands before the name and a slash.
PREFIX_START = 345
PREFIX = slice(PREFIX_START, 500)
USTAR = b"ustar\0"

DIRECTORY = ord("5")
HARD_LINK = ord("1")
SPARSE = ord("S")
# An old archive has NUL for a file; 7 is a contiguous one.
REGULAR = frozenset(b"\x007" + b"0")
# Links and devices have no content, whatever their size says.
WITHOUT_CONTENT = frozenset(b"123456")
# Whose content is about the next file: names that are longer than the header's, and records of pax.
LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL = b"LKxg"
# Solaris wrote it before there was a standard.
PAX_OF_SOLARIS = ord("X")
EXTENSIONS = frozenset((LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, PAX_OF_SOLARIS))

# A sum of bytes by adler32, whose lower half is their sum and one, modulo this: Python's sum takes ten times as long.
MODULUS = 65521
HALF = 0xFFFF
# Of a size, which has 64 bits at most.
MOST_DIGITS = 20
# How many different fields are remembered; most headers of a layer have one of some thousand.
REMEMBERED = 1 << 16


def has_checksum(header: bytes) -> bool:
    """Return whether a header has the sum that it tells; some old programs added bytes as signed numbers."""
    field = header[CHECKSUM]
    if adler32(header) & HALF == expected_adler(field):
        return True
    others = header[: CHECKSUM.start] + header[CHECKSUM.stop :]
    signed = sum(others) - 256 * sum(byte > 127 for byte in others)
    return parse_number(field) == signed + len(field) * ord(" ")


@lru_cache(REMEMBERED)
def expected_adler(field: bytes) -> int:
    """Return the lower half of the adler32 of a header by its checksum, which counts its own field as spaces.

    -1 for a field that is no number.
    """
    try:
        return (parse_number(field) - len(field) * ord(" ") + sum(field) + 1) % MODULUS
    except ValueError:
        return -1


@lru_cache(REMEMBERED)
def size_in(field: bytes) -> int:
    """Return the size in a field; ValueError if there is none."""
    return parse_number(field)


def parse_number(field: bytes) -> int:
    """Return the number in a field: octal digits or, as GNU writes large ones, binary. ValueError."""
    if field[:1] >= b"\x80":
        if field[:1] == b"\xff":
            raise ValueError("a size is negative")
        return int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip() or b"0"
    if not digits.isdigit():
        raise ValueError("a header has a field that is not a number")
    return int(digits, 8)


def full_name(header: bytes) -> bytes:
    """Return the name in a header."""
    name = header[NAME].partition(b"\0")[0]
    prefix = header[PREFIX].partition(b"\0")[0] if header[MAGIC] == USTAR else b""
    return prefix + b"/" + name if prefix else name


def parse_pax(content: bytes) -> dict[bytes, bytes]:
    """Return the records of a pax header: length, space, key=value, line feed; the length counts all. ValueError."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(content) and content[at]:
        digits, space, _ = content[at : at + MOST_DIGITS].partition(b" ")
        if not space or not digits.isdigit():
            raise ValueError("a pax record has no length")
        end = at + int(digits)
        record = content[at + len(digits) + 1 : end]
        key, equals, value = record[:-1].partition(b"=")
        if end > len(content) or not equals or record[-1:] != b"\n":
            raise ValueError("a pax record is cut off")
        records[key] = value
        at = end
    return records


def parse_size(text: bytes) -> int:
    """Return the size in a record of pax; ValueError."""
    if not text.isdigit() or len(text) > MOST_DIGITS:
        raise ValueError("a size in a pax record is not a number")
    return int(text)
