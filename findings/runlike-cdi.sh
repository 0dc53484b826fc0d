#!/usr/bin/env bash
# Expected: runlike prints the `docker run` that made a container, with all that gives it GPUs: runtime, devices, groups.
# Found: it prints --runtime and --device, but neither the CDI device (DeviceRequests) nor --group-add. The copy of a
# container with CDI has no GPU, and that of one with plain nodes cannot open them as its own user.
# runlike 1.5.4 from PyPI, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi runlike==1.5.4
cat >inspected.json <<'END'
[{"Id": "1", "Name": "/train", "Mounts": [],
  "Config": {"Image": "rocm/pytorch", "Env": [], "Hostname": "1", "Cmd": ["python3", "train.py"], "Labels": {}},
  "HostConfig": {"Runtime": "amd", "GroupAdd": ["render"], "NetworkMode": "default",
    "Devices": [{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rwm"}],
    "DeviceRequests": [{"Driver": "cdi", "Count": 0, "DeviceIDs": ["amd.com/gpu=0"], "Capabilities": null, "Options": null}]},
  "NetworkSettings": {"Networks": {}}}]
END
words=$(venv/bin/runlike --stdin <inspected.json 2>errors) || tail -n 1 errors
judge "$(printf '%s\n' "$words" | grep -oE -- '--(runtime|device|gpus|group-add)[= ][^ ]+')" "--device /dev/kfd:/dev/kfd
--runtime=amd"
