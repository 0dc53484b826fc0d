"""Write a bill of materials: the project's distributions, and the wheels that debs and rpms carry.

The format is CycloneDX 1.6 in JSON, which vulnerability scanners read.
"""

from __future__ import annotations

from datetime import datetime, timezone
from importlib.metadata import PathDistribution
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5
from zipfile import Path as ZipPath
from zipfile import ZipFile

from bundle import bundled_versions, digest_of
from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packages import PACKAGES, read_version, source_date
from packageurl import PackageURL

NAME = "amd-container-toolkit"


def write_sbom(path: Path, own: dict[str, Path], bundled: dict[str, Path]) -> None:
    """Write the file. Both arguments are wheels by distribution name. The same commit gives the same bytes."""
    parts = {name: _component(name, read_version(), wheel) for name, wheel in own.items()}
    for package in PACKAGES:
        parts |= {name: _component(name, version, bundled[name]) for name, version in bundled_versions(package)}
    product = Component(name=NAME, version=read_version(), type=ComponentType.APPLICATION, bom_ref=NAME)
    bom = Bom(components=parts.values(), serial_number=uuid5(NAMESPACE_DNS, f"{NAME} {read_version()} {source_date()}"))
    bom.metadata.component = product
    bom.metadata.timestamp = datetime.fromtimestamp(source_date(), timezone.utc)
    bom.dependencies = _dependencies(product, parts)
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n", encoding="utf-8")


def _component(name: str, version: str, wheel: Path) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=name,
        purl=PackageURL("pypi", name=name, version=version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest_of(wheel))],
        licenses=[LicenseFactory().make_from_string(_licence(wheel))],
    )


def _licence(wheel: Path) -> str:
    """Return the licence of a wheel: an SPDX expression, else free text, else the classifiers of the package index."""
    with ZipFile(wheel) as archive:
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
        metadata = PathDistribution(ZipPath(archive, f"{info}/")).metadata
    classified = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier", []) if "License ::" in text]
    return metadata["License-Expression"] or metadata["License"] or " AND ".join(classified) or "NOASSERTION"


def _dependencies(product: Component, parts: dict[str, Component]) -> list[Dependency]:
    """Return which package carries which wheels."""
    own = [package for package in PACKAGES if not package.is_meta]
    carried = {
        package.name: [Dependency(parts[name].bom_ref) for name, _ in bundled_versions(package)] for package in own
    }
    top = Dependency(product.bom_ref, [Dependency(parts[package.name].bom_ref) for package in own])
    return [top, *(Dependency(parts[name].bom_ref, wheels) for name, wheels in carried.items())]
