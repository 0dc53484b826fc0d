#!/usr/bin/env bash
# Expected: a wheel for ROCm 10.0 is newer than the same wheel for ROCm 7.2, so that pip upgrades to it.
# Found: it is older. PEP 440 compares a part of a local version that is not only digits as text, and "rocm10" comes
# before "rocm7". An index with both gives `pip install --upgrade` the build for 7.2.
# packaging 26.4, which pip contains, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi packaging==26.4
seen=$(venv/bin/python - <<'END'
from packaging.version import Version

for older, newer in (("7.2", "7.10"), ("6.4", "7.2"), ("7.2", "10.0")):
    is_newer = Version(f"2.9.1+rocm{newer}") > Version(f"2.9.1+rocm{older}")
    print(f"+rocm{newer} is {'newer' if is_newer else 'older'} than +rocm{older}")
END
)
judge "$seen" "+rocm7.10 is newer than +rocm7.2
+rocm7.2 is newer than +rocm6.4
+rocm10.0 is older than +rocm7.2"
