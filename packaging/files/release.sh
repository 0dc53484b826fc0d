# The poststop hook: /bin/sh release.sh LEASES PYTHON..., with the container's state on standard input.
#
# CDI specs on disk and the config.json of running containers name this file: it must not move, and it has no version. It
# goes on with the script of the toolkit that serves now. The shell follows the link once and reads that file to its end.
. /usr/lib/amd-container-toolkit/current/python/amd_gpu_tracker/release.sh
