"""Extract from a container's config.json what decides about GPUs, in a form that is comparable between engines."""

from __future__ import annotations

import re
from typing import Any

NAMES = ("AMD_", "HIP_", "ROCR_", "CUDA_", "DOCKER_RESOURCE_")
DRM = 226
ANY = (None, -1)
# Engines give an unnamed volume a random name.
DRAWN = re.compile("[0-9a-f]{64}")


def about_gpus(spec: dict[str, Any], *, kfd: int) -> dict[str, Any]:
    """Return environment, devices, rules, mounts of nodes, user and groups. Unordered parts are sorted."""
    process = spec.get("process") or {}
    linux = spec.get("linux") or {}
    user = process.get("user") or {}
    rules = (linux.get("resources") or {}).get("devices") or []
    return {
        "env": sorted(entry for entry in process.get("env") or () if entry.startswith(NAMES)),
        "devices": sorted(map(_device, filter(lambda one: one.get("major") in (DRM, kfd), linux.get("devices") or ()))),
        "rules": sorted({_rule(rule) for rule in rules if rule.get("allow") and _may_be_gpu(rule, kfd)}),
        "mounts": sorted(_mount(mount) for mount in spec.get("mounts") or () if _is_node(mount)),
        "user": [user.get("uid", 0), user.get("gid", 0)],
        "groups": sorted({*(user.get("additionalGids") or ())} - {user.get("gid")}),
    }


def differences(engines: dict[str, Any] | None, ours: dict[str, Any] | None, *, kfd: int) -> dict[str, Any]:
    """Return how an engine's container, from `about_gpus`, differs from our spec; None means that it does not start."""
    if engines is None or ours is None:
        return {} if engines is ours else {"starts": (engines is not None, ours is not None)}
    found = about_gpus(ours, kfd=kfd)
    # The image decides about the group of a user if the spec names none.
    if "gid" not in ours["process"]["user"]:
        engines = {**engines, "user": [engines["user"][0], found["user"][1]]}
    return {key: (engines[key], found[key]) for key in engines if engines[key] != found[key]}


def _device(device: dict[str, Any]) -> str:
    mode = device.get("fileMode")
    access = f"{'-' if mode is None else f'{mode & 0o777:o}'} {device.get('uid') or 0}:{device.get('gid') or 0}"
    return f"{device['path']} {device['type']} {device['major']}:{device['minor']} {access}"


def _rule(rule: dict[str, Any]) -> str:
    numbers = ("*" if rule.get(key) in ANY else rule[key] for key in ("major", "minor"))
    kind = rule.get("type") or "a"
    return f"{kind} {':'.join(map(str, numbers))} {''.join(sorted(rule.get('access') or ''))}"


def _may_be_gpu(rule: dict[str, Any], kfd: int) -> bool:
    # Every engine lets containers make nodes with any numbers.
    return rule.get("major") in (*ANY, DRM, kfd) and rule.get("access") != "m"


def _mount(mount: dict[str, Any]) -> str:
    return f"{mount['destination']} {DRAWN.sub('ID', str(mount.get('source')))}"


def _is_node(mount: dict[str, Any]) -> bool:
    return str(mount["destination"]).startswith(("/dev/dri", "/dev/kfd", "/dev/gpu"))
