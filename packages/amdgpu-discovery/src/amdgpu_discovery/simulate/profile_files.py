"""Find and read profiles: those that come with us, and those of users."""

from __future__ import annotations

import os

from amdgpu_discovery import plain_json
from amdgpu_discovery.errors import reason
from amdgpu_discovery.simulate.profile import GpuModel, Profile, ProfileError
from amdgpu_discovery.simulate.profile_json import parse_model, parse_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(__file__)
PROFILES = os.path.join(HERE, "profiles")
# The GPUs that profiles name without describing them.
MODELS = os.path.join(HERE, "gpu-models.json")


def profile_names() -> list[str]:
    """Return the names of the profiles that come with us."""
    return sorted(name.removesuffix(".json") for name in os.listdir(PROFILES) if name.endswith(".json"))


def load_profile(name: str) -> Profile:
    """Return the profile of that name, or the one in a file if `name` has a slash or ends in .json; ProfileError."""
    if "/" in name or name.endswith(".json"):
        return parse_profile(_read(name), name=os.path.basename(name).removesuffix(".json"), models=_read(MODELS))
    if name not in profile_names():
        raise ProfileError(f"there is no profile {name}", hint=f"choose from {', '.join(profile_names())}")
    return parse_profile(_read(os.path.join(PROFILES, f"{name}.json")), name=name, models=_read(MODELS))


def gpu_model_names() -> list[str]:
    """Return the names of the GPU models that come with us."""
    return sorted(_read(MODELS))


def gpu_model(name: str) -> GpuModel:
    """Return a GPU model that comes with us; ProfileError."""
    models = _read(MODELS)
    if name not in models:
        raise ProfileError(f"there is no GPU model {name}", hint=f"choose from {', '.join(sorted(models))}")
    return parse_model(models[name], name=name)


def _read(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return plain_json.loads(file.read())
    except OSError as error:
        raise ProfileError(f"profile {path} cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise ProfileError(f"profile {path} is not JSON: {error}") from error
