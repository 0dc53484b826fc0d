#!/usr/bin/env bash
# Expected: a workflow engine that counts the GPUs of a host by amd-smi or rocm-smi finds more with both installed.
# Found: Toil counts lines that begin with "gpu", and amd-smi writes "GPU: 0". An amd-smi that works means 0 GPUs, and
# rocm-smi is not asked any more: installing AMD's newer tool hides the GPUs.
# toil 9.6.0 from PyPI, 2026-11-28. The amd-smi below prints the beginning of what amd-smi 6.1.2 prints for two GPUs.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi toil==9.6.0
mkdir bin
cat >bin/amd-smi <<'END'
#!/bin/sh
printf 'GPU: 0\n    ASIC:\n        MARKET_NAME: N/A\nGPU: 1\n    ASIC:\n        MARKET_NAME: N/A\n'
END
cat >bin/rocm-smi <<'END'
#!/bin/sh
printf 'Device  Node  Temp\n0       2     35.0\n1       3     36.0\n'
END
chmod +x bin/amd-smi bin/rocm-smi
count='from toil.lib.accelerators import count_amd_gpus; print(count_amd_gpus())'
both=$(PATH=$PWD/bin:$PATH venv/bin/python -c "$count" 2>errors)
rm bin/amd-smi
judge "with amd-smi: $both
without it: $(PATH=$PWD/bin:$PATH venv/bin/python -c "$count" 2>errors)" "with amd-smi: 0
without it: 2"
