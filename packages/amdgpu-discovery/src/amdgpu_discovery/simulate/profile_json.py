"""Say a profile in JSON, and read it back.

The document has the fields of `Profile`; GPU models stand apart under `models`, and what all GPUs share may stand once
under `every_gpu`.
"""

from __future__ import annotations

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
from amdgpu_discovery.simulate.profile_fields import plain_fields, read_fields, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse_profile(document: Any, *, name: str, models: dict[str, Any]) -> Profile:
    """Return what a document describes, with `models` for those it does not define; ProfileError where it is none."""
    try:
        return _profile(require(document, dict, "a profile is an object"), name, models)
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
