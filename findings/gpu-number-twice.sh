#!/usr/bin/env bash
# Expected: a program that gives a job GPU 1 by its number leaves it one GPU.
# Found: two set the same number in two variables that count one after the other, so that HIP finds no GPU. ROCr keeps GPU
# 1 of the host (ROCR_VISIBLE_DEVICES), and HIP counts what is left from 0. Parsl sets CUDA_VISIBLE_DEVICES beside it,
# which HIP reads too; only the worker with GPU 0 works. clearml-agent sets HIP_VISIBLE_DEVICES beside it, in a container
# that has no other GPU than this one, so that ROCr finds none either. Its group is video; render nodes belong to render.
# parsl 2026.10.26 and clearml-agent 3.0.3 from PyPI, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi parsl==2026.10.26 clearml-agent==3.0.3
cat >jobs.py <<'END'
import parsl
from clearml_agent.commands.worker import Worker
from parsl.config import Config
from parsl.executors import HighThroughputExecutor


@parsl.python_app
def look():
    import os
    import time

    time.sleep(5)
    return " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.endswith("_VISIBLE_DEVICES"))


if __name__ == "__main__":
    executor = HighThroughputExecutor(available_accelerators=2, address="127.0.0.1")
    with parsl.load(Config(executors=[executor])):
        print("parsl:", *sorted(job.result() for job in [look(), look()]), sep="\n")
    print("clearml-agent:", *Worker._amd_gpu_docker_args(visible="1"))
END
seen=$(PATH=$PWD/venv/bin:$PATH venv/bin/python jobs.py 2>errors) || tail -n 1 errors
judge "$seen" "parsl:
CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=0
CUDA_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=1
clearml-agent: --device=/dev/kfd --device=/dev/dri/renderD129 -e HIP_VISIBLE_DEVICES=1 -e ROCR_VISIBLE_DEVICES=1 --group-add video"
