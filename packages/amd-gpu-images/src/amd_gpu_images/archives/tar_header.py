"""Parse the headers of tar archives: the blocks of 512 bytes in front of each file.

Formats are POSIX.1-1988 (ustar), GNU tar and POSIX.1-2001 (pax). Ambiguous cases follow Go's archive/tar, with which
engines unpack layers.
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
# Only in POSIX archives: this prefix and a slash precede the name.
PREFIX_START = 345
PREFIX = slice(PREFIX_START, 500)
USTAR = b"ustar\0"

DIRECTORY = ord("5")
HARD_LINK = ord("1")
SPARSE = ord("S")
# Old archives use NUL for a file; 7 is a contiguous file.
REGULAR = frozenset(b"\x007" + b"0")
# Links and devices have no content, whatever the size field contains.
WITHOUT_CONTENT = frozenset(b"123456")
# The content of these describes the next file: a name too long for its header, or pax records.
LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL = b"LKxg"
# Solaris wrote this kind before the standard.
PAX_OF_SOLARIS = ord("X")
EXTENSIONS = frozenset((LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, PAX_OF_SOLARIS))

# The lower half of adler32 is the sum of the bytes plus one, modulo this. Python's sum takes ten times as long.
MODULUS = 65521
HALF = 0xFFFF
# Limit for a size, which has at most 64 bits.
MOST_SIZE_DIGITS = 20
# Number of cached fields; most headers of a layer share some thousand values.
REMEMBERED = 1 << 16


def has_checksum(header: bytes) -> bool:
    """Return whether a header's checksum is right. Some old programs summed bytes as signed numbers."""
    field = header[CHECKSUM]
    if adler32(header) & HALF == expected_adler(field):
        return True
    others = header[: CHECKSUM.start] + header[CHECKSUM.stop :]
    signed = sum(others) - 256 * sum(byte > 127 for byte in others)
    return parse_number(field) == signed + len(field) * ord(" ")


@lru_cache(REMEMBERED)
def expected_adler(field: bytes) -> int:
    """Return the lower half of a header's adler32 that its checksum implies, -1 if the checksum is no number.

    The checksum counts its own field as spaces.
    """
    try:
        return (parse_number(field) - len(field) * ord(" ") + sum(field) + 1) % MODULUS
    except ValueError:
        return -1


@lru_cache(REMEMBERED)
def size_in(field: bytes) -> int:
    """Return the size in a field; ValueError."""
    return parse_number(field)


def parse_number(field: bytes) -> int:
    """Parse the number in a field: octal digits or, for large numbers of GNU tar, binary. ValueError."""
    if field[:1] >= b"\x80":
        if field[:1] == b"\xff":
            raise ValueError("a size is negative")
        return int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip() or b"0"
    if not digits.isdigit():
        raise ValueError("a header has a field that is not a number")
    return int(digits, 8)


def full_name(header: bytes) -> bytes:
    """Return the whole name in a header, with its prefix."""
    name = header[NAME].partition(b"\0")[0]
    prefix = header[PREFIX].partition(b"\0")[0] if header[MAGIC] == USTAR else b""
    return prefix + b"/" + name if prefix else name


def parse_pax(content: bytes) -> dict[bytes, bytes]:
    """Parse pax records: length, space, key=value, line feed. The length counts the whole record. ValueError."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(content) and content[at]:
        digits, space, _ = content[at : at + MOST_SIZE_DIGITS].partition(b" ")
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
    """Parse the size in a pax record; ValueError."""
    if not text.isdigit() or len(text) > MOST_SIZE_DIGITS:
        raise ValueError("a size in a pax record is not a number")
    return int(text)
