"""Finds profiles of hosts and models of GPUs: built-in ones, and those in files of users."""

from __future__ import annotations

import json
import os
from typing import Any

from amdgpu_discovery.errors import reason
from amdgpu_discovery.recording.profile import GpuModel, Profile, ProfileError
from amdgpu_discovery.recording.profile_json import parse_profile
from amdgpu_discovery.untrusted import plain_json

HERE = os.path.dirname(__file__)
PROFILES = os.path.join(HERE, "profiles")
# GPU models that profiles name without describing them.
MODELS = os.path.join(HERE, "gpu-models.json")
# A recorded host with 64 partitions takes a tenth of it.
MOST_PROFILE_BYTES = 1 << 20


def profile_names() -> list[str]:
    """Return the names of the built-in profiles."""
    return sorted(name.removesuffix(".json") for name in os.listdir(PROFILES) if name.endswith(".json"))


def load_profile(name: str) -> Profile:
    """Return a built-in profile, or the one in a file if `name` has a slash or ends in .json. Raises ProfileError."""
    path = name
    if not ("/" in name or name.endswith(".json")):
        if name not in profile_names():
            raise ProfileError(f"there is no profile {name}", hint=f"choose from {', '.join(profile_names())}")
        path = os.path.join(PROFILES, f"{name}.json")
    own_name = os.path.basename(path).removesuffix(".json")
    return parse_profile(_read_file(path), name=own_name, models=_read_file(MODELS))


def gpu_model_names() -> list[str]:
    """Return the names of the built-in GPU models."""
    return sorted(_read_file(MODELS))


def gpu_model(name: str) -> GpuModel:
    """Return a built-in GPU model. Raises ProfileError."""
    models = _read_file(MODELS)
    if name not in models:
        raise ProfileError(f"there is no GPU model {name}", hint=f"choose from {', '.join(sorted(models))}")
    return GpuModel.from_json({"product": name, **models[name]})


def _read_file(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_PROFILE_BYTES + 1)
        if len(content) > MOST_PROFILE_BYTES:
            raise ProfileError(
                f"profile {path} is longer than {MOST_PROFILE_BYTES} bytes",
                hint="compare it with a recorded one",
            )
        document = plain_json.loads(content)
        # JSON can name half of a character ("\ud800"), which no file can hold.
        json.dumps(document, ensure_ascii=False).encode()
    except OSError as error:
        raise ProfileError(f"profile {path} cannot be read: {reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"profile {path} is not JSON: {error}") from error
    return document
