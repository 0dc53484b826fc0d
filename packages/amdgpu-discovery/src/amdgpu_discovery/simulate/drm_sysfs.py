"""Describe DRM minors as sysfs and udev do."""

from __future__ import annotations

from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.gpu import parse_pci_address
from amdgpu_discovery.simulate.placement import PlacedDrm, PlacedHost
from amdgpu_discovery.simulate.profile import Access
from amdgpu_discovery.simulate.tree import Tree

DRM_CLASS = "/sys/class/drm"


def add_drm(tree: Tree, access: Access, placed: PlacedHost) -> None:
    """Add every card and render node to sysfs and /dev/dri."""
    tree.add_attributes(DRM_CLASS, {"version": "drm 1.1.0 20060810"})
    for device in placed.devices:
        if device.card is not None:
            _add_minor(tree, device, f"card{device.card}", device.card)
            _add_card_extras(tree, device, device.card)
            tree.add_file(f"/dev/dri/card{device.card}", mode=access.card_mode, group=access.card_group)
            _add_alias(tree, device, "card", f"card{device.card}")
        if device.render is not None:
            _add_minor(tree, device, f"renderD{device.render}", device.render)
            tree.add_file(f"/dev/dri/renderD{device.render}", mode=access.render_mode, group=access.render_group)
            _add_alias(tree, device, "render", f"renderD{device.render}")


def _add_minor(tree: Tree, device: PlacedDrm, name: str, minor: int) -> None:
    path = f"{device.path}/drm/{name}"
    uevent = f"MAJOR={DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor"
    tree.add_attributes(path, {"dev": f"{DRM_MAJOR}:{minor}", "uevent": uevent})
    tree.add_link(f"{path}/device", device.path)
    tree.add_link(f"{path}/subsystem", DRM_CLASS)
    tree.add_link(f"{DRM_CLASS}/{name}", path)
    tree.add_link(f"/sys/dev/char/{DRM_MAJOR}:{minor}", path)


def _add_card_extras(tree: Tree, device: PlacedDrm, card: int) -> None:
    card_path = f"{device.path}/drm/card{card}"
    # What is left of a kind of node that Linux no longer has.
    tree.add_link(f"{device.path}/drm/controlD{card + 64}", card_path)
    for connector in device.connectors:
        name = f"card{card}-{connector}"
        tree.add_attributes(f"{card_path}/{name}", {"status": "disconnected", "enabled": "disabled"})
        tree.add_link(f"{card_path}/{name}/device", card_path)
        tree.add_link(f"{DRM_CLASS}/{name}", f"{card_path}/{name}")


def _add_alias(tree: Tree, device: PlacedDrm, node_type: str, name: str) -> None:
    bus = "platform" if device.path.startswith("/sys/devices/platform/") else "pci"
    own_name = device.path.rpartition("/")[2]
    # Others are named after the PCI function that they hang on, or not at all.
    if bus == "platform" or parse_pci_address(own_name):
        tree.add_link(f"/dev/dri/by-path/{bus}-{own_name}-{node_type}", f"/dev/dri/{name}")
