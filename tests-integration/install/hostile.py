"""A directory and an environment of a user who wants root's programs to run his code."""

from __future__ import annotations

_MODULES = """json re os io typing typer click filelock tomlkit jsonschema subprocess encodings sitecustomize
    usercustomize amd_ctk amdgpu_discovery amd_device_spec amd_gpu_tracker amd_container_runtime"""
# Modules that say "hostile" when they are imported, in /root/hostile and beside the config.json of a container.
HOSTILE_DIRECTORY = f"""mkdir /root/hostile
for module in {_MODULES.replace(chr(10), " ")}; do
    echo 'import sys; sys.stderr.write("hostile")' >/root/hostile/$module.py
done
cp /root/hostile/* /root/bundle/
"""
HOSTILE_ENVIRONMENT = """export PYTHONPATH=/root/hostile PYTHONSTARTUP=/root/hostile/re.py PYTHONHOME=/root/hostile
export PYTHONINSPECT=1 PYTHONUSERBASE=/root/hostile PYTHONBREAKPOINT=re.search PYTHONPLATLIBDIR=/root/hostile"""
# To be run where that config.json is. A program that stops is no answer to whether it imports.
EVERY_PROGRAM = """set -e
amd-ctk gpu list
amd-ctk cdi generate --output=-
amd-ctk runtime configure --dry-run --no-validate
amd-gpu-tracker status
amd-container-runtime run c1
amd-container-runtime --help
"""
