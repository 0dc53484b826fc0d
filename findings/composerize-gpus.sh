#!/usr/bin/env bash
# Expected: `docker run --gpus all` becomes a Compose file without a vendor (`count: all`, `capabilities: [gpu]`), and a
# Compose file with `driver: cdi` becomes `docker run --device amd.com/gpu=0`.
# Found: composerize writes `driver: nvidia`, whatever --runtime says, so Compose asks an AMD host for NVIDIA's driver.
# decomposerize leaves the reservation out, and the command starts a container without a GPU.
# composerize 1.7.6 and decomposerize 1.4.4 from npm, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_npm composerize@1.7.6 decomposerize@1.4.4
cat >both.mjs <<'END'
import Composerize from 'composerize';
import Decomposerize from 'decomposerize';

const compose = Composerize('docker run --runtime=amd --gpus all rocm/rocm-terminal');
console.log(compose.split('\n').filter((line) => /driver|runtime/.test(line)).map((line) => line.trim()).join(', '));
console.log(Decomposerize(`services:
  train:
    image: rocm/rocm-terminal
    deploy:
      resources:
        reservations:
          devices:
            - driver: cdi
              device_ids: ["amd.com/gpu=0"]
              capabilities: [gpu]
`));
END
judge "$(node both.mjs)" "runtime: amd, - driver: nvidia
docker run rocm/rocm-terminal"
