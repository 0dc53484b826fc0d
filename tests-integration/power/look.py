"""What must hold when power was cut: of each file the old or the new content, and programs that answer."""

from __future__ import annotations

from power.saved import Saved
from power.work import CONFIGURE, CTK, ON_HOST, RUN, Progress

# Of the disk, with the journal replayed and nothing else repaired. Nobody runs there, so that every GPU is free. A cut
# between a policy and the specs that follow from it is put right by the refresh that every boot begins with.
ANSWERS = f"""
export {ON_HOST}
{CTK} --version
{CTK} gpu list
{CTK} config show
{CTK} gpu-tracker status
{CTK} report
test -z "$(ls /srv/host/var/lib/amd-container-toolkit/history/open)"
{CTK} cdi refresh
{CTK} explain -e AMD_VISIBLE_DEVICES=0
for spec in $(find /srv/host/etc/cdi -name '*.json'); do {CTK} cdi validate --path "$spec"; done
"""
# Leases are gone with /run, where the unit has made the spec again.
BOOTED = """
test -z "$(ls /srv/host/run/amd-container-toolkit/leases 2>/dev/null)"
for i in $(seq 60); do [ -e /srv/host/run/cdi/amd.json ] && exit; sleep 1; done
systemctl status amd-cdi-refresh.service
exit 1
"""
# What the machine would be used for next. The exclusive GPU is asked for, which nobody has.
GOES_ON = f"""
export {ON_HOST}
{CTK} gpu-tracker enable || true
{CTK} gpu-tracker undrain all
{CTK} gpu-tracker 1 exclusive
{CTK} cdi generate
{CTK} cdi refresh
{CTK} config set low-level-runtime runc
{CONFIGURE}
{CONFIGURE} --remove
grep -q '"log-level": "warn"' /srv/host/etc/docker/daemon.json
if grep -q amd-container-runtime /srv/host/etc/docker/daemon.json; then exit 1; fi
{CONFIGURE}
"""
CLAIM_OUTSIDE = """
PATH=/srv/stand-in:$PATH amd-container-runtime --root /tmp/runc create --bundle /srv/bundles/exclusive c9
"""
CLAIM_INSIDE = f"""
{RUN} /srv/bundles/exclusive c9
if {RUN} /srv/bundles/exclusive c10; then exit 1; fi
runc --root /run/power kill c9 KILL
amd-container-runtime --root /run/power delete --force c9
"""
# dpkg says what is to be done where it was interrupted.
FINISH_UPGRADE = """
dpkg --configure -a
dpkg --force-unsafe-io --install /srv/debs/*.deb
test -z "$(dpkg --audit)"
"""


def wrong_files(saved: Saved, job: str, progress: Progress, found: dict[str, str]) -> dict[str, str]:
    """Return the files that have another content than what was confirmed last or, where a step had begun, its result.

    Content is by path; a file that should be there and is not is `(missing)`.
    """
    results = saved.files[job]
    allowed = [results[step] for step in {progress.confirmed, progress.begun}]
    paths = sorted({*found, *(path for result in allowed for path in result)})
    return {
        path: found.get(path, "(missing)")
        for path in paths
        if found.get(path) not in [result.get(path) for result in allowed]
    }
