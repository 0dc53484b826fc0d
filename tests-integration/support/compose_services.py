"""Random services in Compose files with settings that decide about GPUs, from a seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from support.run_lines import IMAGE, PLAIN_IMAGE

# In the directory of the Compose file.
ENV_FILE = "variables.env"
DEFAULTS = "GPUS=3\n"

ENVIRONMENT = (
    *("environment: {AMD_VISIBLE_DEVICES: '0'}", "environment: {AMD_VISIBLE_DEVICES: 1, AMD_LABEL: }"),
    *("environment: [AMD_VISIBLE_DEVICES=all, HIP_VISIBLE_DEVICES]", "environment: [AMD_VISIBLE_DEVICES]"),
    *("environment: ['AMD_VISIBLE_DEVICES=${GPUS:-0-1}']", "environment: {AMD_VISIBLE_DEVICES: $GPUS}"),
    *("environment: ['AMD_VISIBLE_DEVICES=${NONE:-${GPUS:-1}}', AMD_LABEL=$$GPUS]", "environment: []"),
    *("environment: ['AMD_VISIBLE_DEVICES=${NONE-}']", "environment: {AMD_VISIBLE_DEVICES: '${AMD_CALLER+2}'}"),
    *("environment: {AMD_VISIBLE_DEVICES: none}", "environment: {AMD_VISIBLE_DEVICES: '9'}"),
    *("environment: {AMD_VISIBLE_DEVICES: '${NONE:?is needed}'}", "environment: {HIP_VISIBLE_DEVICES: ''}"),
)
FILES = (
    f"env_file: {ENV_FILE}",
    f"env_file: [{{path: {ENV_FILE}, required: false}}]",
    "env_file: [{path: none.env, required: false}]",
    f"env_file: [{ENV_FILE}, {{path: {ENV_FILE}}}]",
)
DEVICES = (
    *("/dev/kfd", "/dev/kfd:/dev/kfd", "/dev/dri", "/dev/dri/:/dev/gpus/", "/dev/dri/renderD128:/dev/gpu:r"),
    *("/dev/dri/renderD129:/dev/dri/renderD129:rw", "/dev/dri/renderD200", "amd.com/gpu=0", "amd.com/gpu=9"),
    *("{source: /dev/dri/renderD130, target: /dev/gpu, permissions: rw}", "{source: /dev/kfd}"),
    *("{source: amd.com/gpu=all, target: amd.com/gpu=all}", "${KFD:-/dev/kfd}", "{source: /dev/dri/, target: /dev/g/}"),
)
RESERVED = (
    *("{driver: cdi, device_ids: ['amd.com/gpu=1'], capabilities: [gpu]}", "{count: 1, capabilities: [gpu]}"),
    *("{device_ids: ['0', '2'], capabilities: [gpu]}", "{count: all, capabilities: [gpu]}"),
)
SERVICE_GPUS = ("gpus: all", "gpus: [{driver: cdi, device_ids: ['amd.com/gpu=0']}]", "gpus: [{count: 2}]")
DEPLOY_GPUS = tuple(f"deploy: {{resources: {{reservations: {{devices: [{one}]}}}}}}" for one in RESERVED)
GPUS = (*SERVICE_GPUS, *DEPLOY_GPUS)
RULES = ("device_cgroup_rules: ['c 226:* rwm']", "device_cgroup_rules: ['c 226:128 rw', 'a *:* rwm']")
USERS = ("user: '1000'", "user: 1000:44", "user: root", "group_add: [44, '110']", "group_add: ['0']")
PRIVILEGES = ("privileged: true", "privileged: 'true'", "cap_add: [SYS_ADMIN]", "cap_add: [ALL]")


class Service(NamedTuple):
    """The text of a Compose file whose service is `main`, and whether the caller has variables set."""

    text: str
    with_caller: bool


def make_services(seed: int, count: int) -> list[Service]:
    """Return services; the same seed gives the same ones."""
    rng = Random(seed)
    return [_make_service(rng) for _ in range(count)]


def make_doubly_asking() -> list[Service]:
    """Return services with both `gpus:` and `deploy:`, in every pair."""
    pairs = [(first, second) for first in SERVICE_GPUS for second in DEPLOY_GPUS]
    return [_write_service([f"image: {PLAIN_IMAGE}", "network_mode: none", *pair], with_caller=False) for pair in pairs]


def _make_service(rng: Random) -> Service:
    lines = [
        f"image: {rng.choice((IMAGE, IMAGE, PLAIN_IMAGE))}",
        "network_mode: none",
        *(["runtime: amd"] if rng.random() < 0.7 else []),
        *_one(rng, ENVIRONMENT, 0.7),
        *_one(rng, FILES, 0.3),
        *([f"devices: [{', '.join(map(_quoted, rng.sample(DEVICES, 2)))}]"] if rng.random() < 0.5 else []),
        *_one(rng, (*GPUS, *DEPLOY_GPUS), 0.3),
        *_one(rng, RULES, 0.2),
        *rng.sample(USERS[:3], rng.randint(0, 1)),
        *rng.sample(USERS[3:], rng.randint(0, 1)),
        *_one(rng, PRIVILEGES, 0.2),
    ]
    return _write_service(lines, with_caller=rng.random() < 0.5)


def _write_service(lines: list[str], *, with_caller: bool) -> Service:
    body = "".join(f"    {line}\n" for line in lines)
    return Service(f"services:\n  main:\n{body}", with_caller)


def _one(rng: Random, options: tuple[str, ...], share: float) -> list[str]:
    return [rng.choice(options)] if rng.random() < share else []


def _quoted(device: str) -> str:
    return device if device.startswith("{") else f"'{device}'"
