"""What `--gpus` of Docker says: a request for devices of a driver, as Docker's client reads it."""

from __future__ import annotations

import re

from amd_ctk.explain.separated import split_values
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

KEYS = ("driver", "count", "device", "capabilities", "options")
COUNT = re.compile(r"[+-]?[0-9]{1,18}")
EVERY = -1
HINT = "write it as --gpus all, or as --gpus driver=cdi,device=amd.com/gpu=0"


class GpusRequest(Value):
    """A driver, "" where Docker chooses one, and how many devices (-1: all) or which."""

    driver: str = ""
    count: int = 0
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


def parse_gpus(text: str) -> GpusRequest:
    """Return what a value of `--gpus` asks for; ToolkitError with the client's reason where it refuses it."""
    if not text:
        raise _refused(text, "EOF")
    found: dict[str, str] = {}
    for part in split_values(text, "gpus"):
        key, equals, value = part.partition("=")
        if key in found:
            raise _refused(text, f"gpu request key '{key}' can be specified only once")
        if equals and key not in KEYS:
            raise _refused(text, f"unexpected key '{key}' in '{part}'")
        found[key] = value
        if not equals:
            found["count"] = key
    count = _parse_count(text, found["count"]) if "count" in found else 0 if "device" in found else 1
    devices = tuple(found["device"].split(",")) if "device" in found else ()
    if count and devices:
        raise _refused(text, "cannot set both Count and DeviceIDs on device request")
    capabilities = tuple(found["capabilities"].split(",")) if "capabilities" in found else ()
    return GpusRequest(driver=found.get("driver", ""), count=count, devices=devices, capabilities=capabilities)


def _parse_count(text: str, word: str) -> int:
    if word == "all":
        return EVERY
    if not COUNT.fullmatch(word):
        raise _refused(text, "count must be an integer")
    return int(word)


def _refused(text: str, why: str) -> ToolkitError:
    return ToolkitError(f"docker refuses --gpus {text!r}: {why}", hint=HINT)
