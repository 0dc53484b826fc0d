#!/usr/bin/env bash
# Expected: on a machine without AMD's library, `import amdsmi` raises ImportError or OSError, which a program that
# looks for GPUs catches.
# Found: KeyError, from a dictionary of libraries in which the missing one has no entry. `except ImportError` does not
# catch it, so a tool that only asks whether there is an AMD GPU ends.
# amdsmi 7.0.2 from PyPI, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi amdsmi==7.0.2
seen=$(venv/bin/python - <<'END'
try:
    import amdsmi
    print("imported")
except BaseException as error:
    print(type(error).__name__, error)
END
)
judge "$(printf "%s\n" "$seen" | tail -n 1)" "KeyError 'libamd_smi.so'"
