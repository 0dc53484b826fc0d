"""Reads and writes JSON as `json` does, without the cost of importing `json`.

`import json` loads `re` and `enum` and doubles the time of a container start; its C half alone does not. Interpreters
without that half use `json` itself. A property test checks that both give the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    MakeObject = Callable[[list[tuple[str, Any]]], Any]

try:
    import _json
except ImportError:  # an interpreter without CPython's accelerator
    HAS_ACCELERATOR = False
else:
    HAS_ACCELERATOR = True

_SPACE = " \t\n\r"


class _Reading:
    """The settings that the C scanner reads: those of a strict `json.JSONDecoder`."""

    strict = True
    object_hook = None
    # Since Python 3.15.
    array_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, make_object: MakeObject | None) -> None:
        self.memo: dict[str, str] = {}
        self.object_pairs_hook = make_object

    @staticmethod
    def parse_constant(name: str) -> Any:
        """Refuse NaN and Infinity, which Python reads and JSON does not have."""
        raise ValueError(f"{name} is not JSON")


def loads(content: bytes, *, make_object: MakeObject | None = None) -> Any:
    """Parse one JSON document in UTF-8; ValueError says where it is broken. Key order and big integers are kept.

    `make_object` makes an object of its keys and values in order; by default the last of equal keys counts.
    RecursionError has the same words in every version of Python.
    """
    try:
        return _loads(content.decode("utf-8"), make_object)
    except RecursionError as error:
        raise RecursionError("it is nested too deeply") from error


def _loads(text: str, make_object: MakeObject | None) -> Any:
    if HAS_ACCELERATOR:
        try:
            scan: Any = _json.make_scanner
            document, end = scan(_Reading(make_object))(text, len(text) - len(text.lstrip(_SPACE)))
        except (StopIteration, SystemError, AttributeError, TypeError):
            pass  # broken, and json says where; or a later Python whose C half is called in another way
        else:
            if not text[end:].strip(_SPACE):
                return document
    import json

    return json.loads(text, parse_constant=_Reading.parse_constant, object_pairs_hook=make_object)


def dumps(document: Any) -> bytes:
    """Return a document as one line of JSON, ASCII only; TypeError or ValueError if JSON cannot express it."""
    encode = _make_encoder()
    if encode is None:
        import json

        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    return "".join(encode(document, 0)).encode("ascii")


def as_log_word(text: str) -> str:
    """Return text as one word of a log line: unchanged, or as a JSON string if that would not be one word."""
    plain = text.isprintable() and not any(character in text for character in ' "=\\')
    return text if plain and text else dumps(text).decode()


def _make_encoder() -> Any:
    """Return the C half's encoder, None if it is missing or a later Python makes it in another way."""
    if not HAS_ACCELERATOR:
        return None
    try:
        return _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, False)
    except TypeError:
        return None


def _refuse(document: object) -> Any:
    raise TypeError(f"{type(document).__name__} is not JSON")
