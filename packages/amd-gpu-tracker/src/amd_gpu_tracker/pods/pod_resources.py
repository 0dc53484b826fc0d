"""Which pods have which devices, in the message of kubelet's PodResources API, version 1.

The message is read as Protocol Buffers: pods (1) with a name (1), a namespace (2) and containers (3); containers with a
name (1), devices (2) and dynamic resources (5). Everything in it may be wrong: it is read within limits.
"""

from __future__ import annotations

from amd_gpu_tracker.leases.pod_device import PodDevice
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The resources of AMD's device plugin and the CDI devices of its DRA driver.
RESOURCES = "amd.com/"
# Limits for a node; kubelet's default is 110 pods.
MOST_PODS = 4096
MOST_POD_DEVICES = 4096
# A namespace has at most 63 characters, a pod's name 253, an id as many as the plugin likes.
LONGEST_NAME = 253
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10


def parse_pods(message: bytes) -> list[PodDevice]:
    """Return the devices of AMD that pods have; ValueError."""
    found: list[PodDevice] = []
    for count, pod in enumerate(_fields(message, 1)):
        if count >= MOST_PODS or len(found) > MOST_POD_DEVICES:
            raise ValueError("too many pods or devices")
        name, namespace = _text(pod, 1), _text(pod, 2)
        for container in _fields(pod, 3):
            inside = _text(container, 1)
            found += [
                PodDevice(namespace=namespace, pod=name, container=inside, device=device)
                for device in _devices(container)
            ]
    return found


def _devices(container: bytes) -> Iterator[str]:
    for devices in _fields(container, 2):
        if _text(devices, 1).startswith(RESOURCES):
            yield from (_decode(device) for device in _fields(devices, 2))
    for resource in _fields(container, 5):
        for claim in _fields(resource, 4):
            names = (_text(device, 1) for device in _fields(claim, 1))
            yield from (name for name in names if name.startswith(RESOURCES))


def _text(message: bytes, wanted: int) -> str:
    """Return the last value of a text field, "" if it is not there."""
    found = ""
    for value in _fields(message, wanted):
        found = _decode(value)
    return found


def _decode(value: bytes) -> str:
    return printable(value[:LONGEST_NAME].decode("utf-8", "replace"))


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the fields of a message with this number and a length; ValueError if the message is not whole."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            _, at = _varint(message, at)
            continue
        if kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
            continue
        if kind != BYTES:
            raise ValueError("a field has an unknown kind")
        length, at = _varint(message, at)
        if length > len(message) - at:
            raise ValueError("a field is cut off")
        if tag >> 3 == wanted:
            yield message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for position in range(LONGEST_VARINT):
        if at + position >= len(message):
            raise ValueError("a number is cut off")
        byte = message[at + position]
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, at + position + 1
    raise ValueError("a number is too long")
