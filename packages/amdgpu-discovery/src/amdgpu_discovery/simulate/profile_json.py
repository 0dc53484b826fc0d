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
    Profile,
    ProfileError,
    SimulatedGpu,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.value import Value

# Numbers that people know in hexadecimal, or in octal; JSON has them as text.
HEXADECIMAL = frozenset(
    (
        *("device_id", "vendor_id", "subsystem_vendor", "subsystem_device", "revision", "pci_class"),
        *("hive_id", "pci_unique_id", "kfd_unique_ids"),
    )
)
OCTAL = frozenset(("card_mode", "render_mode"))


def parse_profile(document: Any, *, name: str, kinds: dict[str, Any]) -> Profile:
    """Return what a document describes, with `kinds` for those it does not define; ProfileError where it is none."""
    try:
        return _profile(document, name, kinds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"profile {name} cannot be understood: {error}", hint="compare it with a recorded one"
        ) from error


def parse_kind(fields: dict[str, Any], *, name: str) -> GpuKind:
    """Return the GPU kind of that name; TypeError for a field that kinds do not have or lack."""
    return GpuKind(**{"product": name, **_read_fields(fields)})


def format_profile(profile: Profile) -> bytes:
    """Return a profile as a document for people: complete, but without what is as by default."""
    import json

    kinds = _kinds_by_name(profile)
    document = {
        "about": profile.about,
        "origin": profile.origin,
        "driver": _plain(profile.driver) if profile.driver else None,
        "access": _plain(profile.access),
        "cpus": [_plain(cpu) for cpu in profile.cpus],
        "foreign": [_plain(device) for device in profile.foreign],
        "kinds": {name: _plain(kind) for name, kind in kinds.items()},
        "gpus": [{**_plain(gpu), "kind": _name_of(gpu.kind, kinds)} for gpu in profile.gpus],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


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


def _profile(document: Any, name: str, kinds: dict[str, Any]) -> Profile:
    given = dict(document)
    fields: dict[str, Any] = {"name": name}
    kinds = {**kinds, **given.pop("kinds", {})}
    common = given.pop("every_gpu", {})
    fields["gpus"] = tuple(_gpu({**common, **gpu}, kinds) for gpu in given.pop("gpus", ()))
    if "driver" in given:
        driver = given.pop("driver")
        fields["driver"] = None if driver is None else Driver(**_read_fields(driver))
    if "access" in given:
        fields["access"] = Access(**_read_fields(given.pop("access")))
    if "cpus" in given:
        fields["cpus"] = tuple(CpuNode(**_read_fields(cpu)) for cpu in given.pop("cpus"))
    if "foreign" in given:
        fields["foreign"] = tuple(ForeignDrm(**_read_fields(device)) for device in given.pop("foreign"))
    return Profile(**fields, **given)


def _gpu(fields: dict[str, Any], kinds: dict[str, Any]) -> SimulatedGpu:
    name = fields["kind"]
    if name not in kinds:
        raise ValueError(f"no GPU kind is named {name}")
    return SimulatedGpu(**{**_read_fields(fields), "kind": parse_kind(kinds[name], name=name)})


def _read_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _read_field(name, field) for name, field in fields.items()}


def _read_field(name: str, field: Any) -> Any:
    if isinstance(field, list):
        return tuple(_read_field(name, item) for item in field)
    if isinstance(field, str) and name in HEXADECIMAL:
        return int(field, 16)
    if isinstance(field, str) and name in OCTAL:
        return int(field, 8)
    return field


def _plain(value: Value) -> dict[str, Any]:
    return {name: _plain_field(name, field) for name, field in value.as_dict().items() if _is_told(value, name, field)}


def _is_told(value: Value, name: str, field: Any) -> bool:
    defaults = type(value)._defaults
    return name not in defaults or field != defaults[name]


def _plain_field(name: str, field: Any) -> Any:
    if isinstance(field, tuple):
        return [_plain_field(name, item) for item in field]
    if isinstance(field, int) and name in HEXADECIMAL:
        return f"0x{field:x}"
    return f"{field:o}" if name in OCTAL else field
