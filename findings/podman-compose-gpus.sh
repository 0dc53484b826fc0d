#!/usr/bin/env bash
# Expected: podman-compose passes on the GPUs of a service, or says that it cannot: it knows `gpus:` and
# `deploy.resources.reservations.devices`.
# Found: of the four forms, it passes on only `devices: ["amd.com/gpu=0"]` and `runtime:`. `driver: cdi` and `gpus: all`
# are dropped without a word, and the container starts without a GPU.
# podman-compose 1.6.0 from PyPI, 2026-11-28. The podman below only writes down how it is called.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi podman-compose==1.6.0
mkdir bin
cat >bin/podman <<'END'
#!/bin/sh
echo "$*" >>calls
case "$1" in
    --version) echo podman version 5.4.2 ;;
    ps) echo '[]' ;;
esac
END
chmod +x bin/podman
cat >compose.yaml <<'END'
services:
  reservation:
    image: busybox
    deploy:
      resources:
        reservations:
          devices: [{driver: cdi, device_ids: ["amd.com/gpu=0"], capabilities: [gpu]}]
  gpus: {image: busybox, gpus: all}
  devices: {image: busybox, devices: ["amd.com/gpu=0"]}
  runtime: {image: busybox, runtime: amd}
END
PATH=$PWD/bin:$PATH venv/bin/podman-compose up --detach >up.log 2>&1
seen=$(for service in reservation gpus devices runtime; do
    words=$(grep "^create .*compose.service=$service " calls | grep -oE -- '--(device|gpus|runtime)[ =][^ ]+' | tr '\n' ' ')
    echo "$service: ${words:-nothing }"
done | sed 's/ $//')
judge "$seen" "reservation: nothing
gpus: nothing
devices: --device amd.com/gpu=0
runtime: --runtime amd"
