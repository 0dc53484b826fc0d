"""Profiles as files: writes and parses them as JSON."""

from __future__ import annotations

import json
from typing import Any

from amdgpu_discovery.recording.profile import (
    HEXADECIMAL,
    OCTAL,
    Access,
    CpuNode,
    Driver,
    ForeignDrm,
    GpuModel,
    OtherDrm,
    Profile,
    ProfileError,
    SimulatedGpu,
    SimulatedProcess,
    SimulatedUse,
)
from amdgpu_discovery.value import Value, parse_field

PARTS = (Access, CpuNode, Driver, ForeignDrm, GpuModel, OtherDrm, SimulatedGpu, SimulatedProcess, SimulatedUse)
TYPES: dict[str, type[Value]] = {part.__name__: part for part in PARTS}
# Fields that a document for people has even if they are the defaults.
ALWAYS = ("about", "origin", "driver", "access", "cpus", "foreign", "others")


def plain_fields(value: Value) -> dict[str, Any]:
    """Return the fields of a value in the form of JSON, without defaults."""
    value_type = type(value)
    return {
        name: _plain(name, field)
        for name, field in value.as_dict().items()
        # A default is an attribute of the class.
        if not hasattr(value_type, name) or field != getattr(value_type, name)
    }


def _plain(name: str, field: Any) -> Any:
    if isinstance(field, Value):
        return plain_fields(field)
    if isinstance(field, tuple):
        return [_plain(name, item) for item in field]
    if isinstance(field, int) and name in HEXADECIMAL:
        return f"0x{field:x}"
    return f"{field:o}" if name in OCTAL else field


def parse_profile(document: Any, *, name: str, models: dict[str, Any]) -> Profile:
    """Parse a profile; `models` are those that it may name without defining them. ProfileError if it is not valid."""
    try:
        return _profile(parse_field("a profile", "dict[str, Any]", document, {}), name, models)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        message = f"profile {name} cannot be understood: {error}"
        raise ProfileError(message, hint="compare it with a recorded one") from error


def format_profile(profile: Profile) -> bytes:
    """Return a profile as a document for people: complete, but with few defaults."""
    models = _models_by_name(profile)
    fields = (*ALWAYS, "processes") if profile.processes else ALWAYS
    names = [next(name for name, model in models.items() if model == gpu.model) for gpu in profile.gpus]
    document = {
        **{name: _plain(name, getattr(profile, name)) for name in fields},
        "models": {name: plain_fields(model) for name, model in models.items()},
        "gpus": [{**plain_fields(gpu), "model": name} for gpu, name in zip(profile.gpus, names, strict=True)],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _profile(document: dict[str, Any], name: str, models: dict[str, Any]) -> Profile:
    given = dict(document)
    # The name is that of the file.
    if "name" in given:
        raise TypeError("it has a field `name`, which is that of its file")
    models = {**models, **given.pop("models", {})}
    common = given.pop("every_gpu", {})
    gpus = [_with_model({**common, **gpu}, models) for gpu in given.pop("gpus", ())]
    return Profile.from_json({**given, "name": name, "gpus": gpus}, TYPES)


def _with_model(gpu: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    name = gpu.get("model", "nothing")
    if name not in models:
        raise ValueError(f"a GPU has model {name}, which is not described")
    return {**gpu, "model": {"product": name, **models[name]}}


def _models_by_name(profile: Profile) -> dict[str, GpuModel]:
    """Return the models of a profile by their products; different models of one product get numbers."""
    models: dict[str, GpuModel] = {}
    for gpu in profile.gpus:
        if gpu.model not in models.values():
            product = gpu.model.product
            models[product if product not in models else f"{product} #{len(models) + 1}"] = gpu.model
    return models
