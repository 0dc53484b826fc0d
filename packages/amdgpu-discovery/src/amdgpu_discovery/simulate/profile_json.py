"""Profiles as files: find those that come with us and those of users, and say one in JSON and read it back."""

from __future__ import annotations

import os
from typing import Any

from amdgpu_discovery import plain_json
from amdgpu_discovery.errors import reason
from amdgpu_discovery.simulate.profile import (
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

# Numbers that people know in hexadecimal, or in octal; JSON has them as text.
HEXADECIMAL = frozenset(
    (
        *("device_id", "vendor_id", "subsystem_vendor", "subsystem_device", "revision", "pci_class"),
        *("hive_id", "pci_unique_id", "kfd_unique_ids"),
    )
)
OCTAL = frozenset(("card_mode", "render_mode"))

HERE = os.path.dirname(__file__)
PROFILES = os.path.join(HERE, "profiles")
# The GPUs that profiles name without describing them.
MODELS = os.path.join(HERE, "gpu-models.json")


def read_fields(value_type: type[Value], fields: dict[str, Any]) -> dict[str, Any]:
    """Return JSON's fields as those of a value of this type; ValueError for one of a wrong type."""
    kinds = value_type._fields
    return {name: parse_field(name, kinds.get(name, "Any"), _read(name, field), {}) for name, field in fields.items()}


def plain_fields(value: Value) -> dict[str, Any]:
    """Return the fields of a value as JSON has them, without those that are as by default."""
    value_type = type(value)
    return {
        name: _plain(name, field)
        for name, field in value.as_dict().items()
        # A default is an attribute of the class.
        if not hasattr(value_type, name) or field != getattr(value_type, name)
    }


def _read(name: str, field: Any) -> Any:
    if isinstance(field, list):
        return [_read(name, item) for item in field]
    if isinstance(field, str) and name in HEXADECIMAL:
        return int(field, 16)
    if isinstance(field, str) and name in OCTAL:
        return int(field, 8)
    return field


def _plain(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return [_plain(name, item) for item in field]
    if isinstance(field, int) and name in HEXADECIMAL:
        return f"0x{field:x}"
    return f"{field:o}" if name in OCTAL else field


def parse_profile(document: Any, *, name: str, models: dict[str, Any]) -> Profile:
    """Return what a document describes, with `models` for those it does not define; ProfileError if it is not one."""
    try:
        return _profile(parse_field("a profile", "dict[str, Any]", document, {}), name, models)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"profile {name} cannot be understood: {error}"
        raise ProfileError(message, hint="compare it with a recorded one") from error


def parse_model(fields: dict[str, Any], *, name: str) -> GpuModel:
    """Return the GPU model of that name; TypeError for an unknown or missing field, ValueError for a wrong type."""
    return GpuModel(**{"product": name, **read_fields(GpuModel, fields)})


def format_profile(profile: Profile) -> bytes:
    """Return a profile as a document for people: complete, but without what is as by default."""
    import json

    models = _models_by_name(profile)
    document = {
        "about": profile.about,
        "origin": profile.origin,
        "driver": plain_fields(profile.driver) if profile.driver else None,
        "access": plain_fields(profile.access),
        "cpus": [plain_fields(cpu) for cpu in profile.cpus],
        "foreign": [plain_fields(device) for device in profile.foreign],
        "others": [plain_fields(device) for device in profile.others],
        **({"processes": [_plain_process(process) for process in profile.processes]} if profile.processes else {}),
        "models": {name: plain_fields(model) for name, model in models.items()},
        "gpus": [{**plain_fields(gpu), "model": _name_of(gpu.model, models)} for gpu in profile.gpus],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _profile(document: dict[str, Any], name: str, models: dict[str, Any]) -> Profile:
    given = dict(document)
    models = {**models, **given.pop("models", {})}
    common = given.pop("every_gpu", {})
    fields: dict[str, Any] = {"name": name}
    fields["gpus"] = tuple(_gpu({**common, **gpu}, models) for gpu in given.pop("gpus", ()))
    if "driver" in given:
        driver = given.pop("driver")
        fields["driver"] = None if driver is None else Driver(**read_fields(Driver, driver))
    if "access" in given:
        fields["access"] = Access(**read_fields(Access, given.pop("access")))
    if "cpus" in given:
        fields["cpus"] = tuple(CpuNode(**read_fields(CpuNode, cpu)) for cpu in given.pop("cpus"))
    if "foreign" in given:
        fields["foreign"] = tuple(ForeignDrm(**read_fields(ForeignDrm, device)) for device in given.pop("foreign"))
    if "others" in given:
        fields["others"] = tuple(OtherDrm(**read_fields(OtherDrm, device)) for device in given.pop("others"))
    if "processes" in given:
        fields["processes"] = tuple(_process(dict(process)) for process in given.pop("processes"))
    return Profile(**fields, **read_fields(Profile, given))


def _gpu(fields: dict[str, Any], models: dict[str, Any]) -> SimulatedGpu:
    name = fields.pop("model", "nothing")
    if name not in models:
        raise ValueError(f"a GPU has model {name}, which is not described")
    return SimulatedGpu(**read_fields(SimulatedGpu, fields), model=parse_model(models[name], name=name))


def _process(fields: dict[str, Any]) -> SimulatedProcess:
    uses = tuple(SimulatedUse(**read_fields(SimulatedUse, use)) for use in fields.pop("uses", ()))
    return SimulatedProcess(**read_fields(SimulatedProcess, fields), uses=uses)


def _plain_process(process: SimulatedProcess) -> dict[str, Any]:
    return {**plain_fields(process), "uses": [plain_fields(use) for use in process.uses]}


def _models_by_name(profile: Profile) -> dict[str, GpuModel]:
    """Return the models of a profile by their products, which get numbers where two of them differ in something."""
    models: dict[str, GpuModel] = {}
    for gpu in profile.gpus:
        if gpu.model not in models.values():
            product = gpu.model.product
            models[product if product not in models else f"{product} #{len(models) + 1}"] = gpu.model
    return models


def _name_of(model: GpuModel, models: dict[str, GpuModel]) -> str:
    return next(name for name, other in models.items() if other == model)


def profile_names() -> list[str]:
    """Return the names of the profiles that come with us."""
    return sorted(name.removesuffix(".json") for name in os.listdir(PROFILES) if name.endswith(".json"))


def load_profile(name: str) -> Profile:
    """Return the profile of that name, or the one in a file if `name` has a slash or ends in .json; ProfileError."""
    if "/" in name or name.endswith(".json"):
        return parse_profile(
            _read_file(name), name=os.path.basename(name).removesuffix(".json"), models=_read_file(MODELS)
        )
    if name not in profile_names():
        raise ProfileError(f"there is no profile {name}", hint=f"choose from {', '.join(profile_names())}")
    return parse_profile(_read_file(os.path.join(PROFILES, f"{name}.json")), name=name, models=_read_file(MODELS))


def gpu_model_names() -> list[str]:
    """Return the names of the GPU models that come with us."""
    return sorted(_read_file(MODELS))


def gpu_model(name: str) -> GpuModel:
    """Return a GPU model that comes with us; ProfileError."""
    models = _read_file(MODELS)
    if name not in models:
        raise ProfileError(f"there is no GPU model {name}", hint=f"choose from {', '.join(sorted(models))}")
    return parse_model(models[name], name=name)


def _read_file(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return plain_json.loads(file.read())
    except OSError as error:
        raise ProfileError(f"profile {path} cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise ProfileError(f"profile {path} is not JSON: {error}") from error
