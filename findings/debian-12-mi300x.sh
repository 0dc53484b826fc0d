#!/usr/bin/env bash
# Expected: udev loads amdgpu for every AMD GPU, and a driver that is too old for one says so in the kernel's log.
# Found: the module of Debian 12 claims AMD's display controllers of any model, but no "processing accelerator" (PCI class
# 1200), the class of MI300X and MI355X. Nothing is loaded or logged, /dev/kfd is missing, and `modprobe amdgpu` finds no
# GPU. Linux 6.12 of Debian 13 and of the backports claims the class.
# linux-image-6.1.0-50-amd64 6.1.176-1 of Debian 12, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_debian linux-image-6.1.0-50-amd64=6.1.176-1
cat >claimed.py <<'END'
import re
from pathlib import Path

module = next(Path("debian/lib/modules").rglob("amdgpu.ko")).read_bytes()
claimed = re.findall(rb"\0alias=pci:v00001002d(\w{8}|\*)sv\*sd\*bc(\w\w|\*)sc(\w\w|\*)i", module)
models = {model.decode() for model, _, _ in claimed}
print("MI210 by its number:", "0000740F" in models)
print("MI300X by its number:", "000074A1" in models)
print("classes, of any model:", *sorted((kind + subclass).decode() for model, kind, subclass in claimed if model == b"*"))
END
judge "$(python3 claimed.py)" "MI210 by its number: True
MI300X by its number: False
classes, of any model: 0300 0380"
