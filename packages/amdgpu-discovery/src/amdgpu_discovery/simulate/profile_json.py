"""Say a profile in JSON, and read it back.

The document has the fields of `Profile`; GPU kinds stand apart under `kinds`, and what all GPUs share may stand once
under `every_gpu`.
"""

from __future__ import annotations

from amdgpu_discovery.simulate.profile import (
    Access,
    CpuNode,
    Driver,
    ForeignDrm,
    GpuKind,
    OtherDrm,
    Profile,
    ProfileError,
    SimulatedGpu,
)
from amdgpu_discovery.simulate.profile_fields import plain_fields, read_fields, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse_profile(document: Any, *, name: str, kinds: dict[str, Any]) -> Profile:
    """Return what a document describes, with `kinds` for those it does not define; ProfileError where it is none."""
    try:
        return _profile(require(document, dict, "a profile is an object"), name, kinds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"profile {name} cannot be understood: {error}"
        raise ProfileError(message, hint="compare it with a recorded one") from error


def parse_kind(fields: dict[str, Any], *, name: str) -> GpuKind:
    """Return the GPU kind of that name; TypeError for a field that kinds do not have or lack, ValueError for a type."""
    return GpuKind(**{"product": name, **read_fields(GpuKind, fields)})


def format_profile(profile: Profile) -> bytes:
    """Return a profile as a document for people: complete, but without what is as by default."""
    import json

    kinds = _kinds_by_name(profile)
    document = {
        "about": profile.about,
        "origin": profile.origin,
        "driver": plain_fields(profile.driver) if profile.driver else None,
        "access": plain_fields(profile.access),
        "cpus": [plain_fields(cpu) for cpu in profile.cpus],
        "foreign": [plain_fields(device) for device in profile.foreign],
        "others": [plain_fields(device) for device in profile.others],
        "kinds": {name: plain_fields(kind) for name, kind in kinds.items()},
        "gpus": [{**plain_fields(gpu), "kind": _name_of(gpu.kind, kinds)} for gpu in profile.gpus],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _profile(document: dict[str, Any], name: str, kinds: dict[str, Any]) -> Profile:
    given = dict(document)
    kinds = {**kinds, **given.pop("kinds", {})}
    common = given.pop("every_gpu", {})
    fields: dict[str, Any] = {"name": name}
    fields["gpus"] = tuple(_gpu({**common, **gpu}, kinds) for gpu in given.pop("gpus", ()))
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
    return Profile(**fields, **read_fields(Profile, given))


def _gpu(fields: dict[str, Any], kinds: dict[str, Any]) -> SimulatedGpu:
    name = fields.pop("kind", "nothing")
    if name not in kinds:
        raise ValueError(f"a GPU is of kind {name}, which is not described")
    return SimulatedGpu(**read_fields(SimulatedGpu, fields), kind=parse_kind(kinds[name], name=name))


def _kinds_by_name(profile: Profile) -> dict[str, GpuKind]:
    """Return the kinds of a profile by their products, which get numbers where two of them differ in something."""
    kinds: dict[str, GpuKind] = {}
    for gpu in profile.gpus:
        if gpu.kind not in kinds.values():
            product = gpu.kind.product
            kinds[product if product not in kinds else f"{product} #{len(kinds) + 1}"] = gpu.kind
    return kinds


def _name_of(kind: GpuKind, kinds: dict[str, GpuKind]) -> str:
    return next(name for name, other in kinds.items() if other == kind)
