# The poststop hook: /bin/sh release.sh LEASES PYTHON..., with the container's state on standard input.
#
# Every container with GPUs runs it at its end, and starting python takes five times as long as what there is to do most
# often: to remove the lease of a container that is gone. Whatever is not plain to see from here is left to python, whose
# command line follows: hook.py reads the same state, and judges by amd_gpu_tracker/leases/liveness.py.
#
# CDI specs on disk and the config.json of running containers name this file: it must not move.

# sh is bash on some systems, where exported functions would stand in for these builtins.
unset -f test read printf exec
# Engines run hooks with an environment of their own, or none.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
leases=$1
shift

ask_python() {
    # Python takes the lock itself.
    exec 9>&-
    printf '%s' "$state" | "$@"
    exit
}

read_text() {
    text=''
    while IFS= read -r line || test -n "$line"; do text=$text$line; done
}

# Sets `pid` to the number behind these words of `text`, "" where there is none.
find_pid() {
    pid=${text#*"$1"} pid=${pid# }
    pid=${pid%%[!0-9]*}
}

state=''
read_text
state=$text

# Other ids are written in another way in names of files, which are cut where ids are longer.
id=${state#*'"id"'}
case ${id%%'"'*} in : | ': ' | ' : ') ;; *) ask_python "$@" ;; esac
id=${id#*'"'} id=${id%%'"'*}
case $id in '' | *[!A-Za-z0-9_.+-]*) ask_python "$@" ;; esac
test ${#id} -le 100 || ask_python "$@"

# Leases of users are elsewhere, and only python knows where. /proc hides processes where it is mounted with hidepid.
lock=${leases%/*}/gpu-tracker.lock
test -w "$leases" && test -w "$lock" && test -e /proc/1 || ask_python "$@"
lease=''
for found in "$leases/$id@"*.json; do
    case $lease in '') lease=$found ;; *) ask_python "$@" ;; esac
done
test -e "$lease" || exit 0

# The pid namespace that /proc shows. That of the host has a number of its own (PROC_PID_INIT_INO of linux/proc_ns.h), and
# only there process 2 is a thread of the kernel: PF_KTHREAD in the flags of proc(5), behind the name, which may be any.
{ read_text </proc/2/stat; } 2>/dev/null
flags=${text##*') '}
for _ in state parent group session terminal foreground; do flags=${flags#* }; done
flags=${flags%%' '*}
case $flags in '' | *[!0-9]*) flags=0 ;; esac
case $((flags & 0x200000)) in
    0) namespace=$(readlink /proc/self/ns/pid 2>/dev/null) || ask_python "$@" ;;
    *) namespace='pid:[4026531836]' ;;
esac

# With the lock held, no process can replace the lease that is read by that of the next container of this id.
# Some versions of filelock remove the file; a lock on that would guard nothing.
exec 9<>"$lock"
flock -n 9 2>/dev/null && test /proc/self/fd/9 -ef "$lock" || ask_python "$@"
{ read_text <"$lease"; } 2>/dev/null || ask_python "$@"

# Without a backslash no text has a quotation mark, so that these words are keys. A container with a cgroup to look at
# has no pid namespace of its own, and may outlive its first process.
case $text in
    *\\*) ask_python "$@" ;;
    '{"version":1,"container_id":"'"$id"'",'*'"cgroup":"",'*'"namespace":"'"$namespace"'"'*) ;;
    *) ask_python "$@" ;;
esac

# Gone are the process that made the container and the first one inside.
find_pid '"creator":{"pid":'
test -e "/proc/$pid" && ask_python "$@"
case $text in
    *'"init":null,'*) ;;
    *)
        find_pid '"init":{"pid":'
        test -e "/proc/$pid" && ask_python "$@"
        ;;
esac

# The runtime has forgotten it, as runc does before it runs poststop hooks, or knows by crun's `status` that it is over.
root=${text#*'"root":"'} root=${root%%'"'*}
case $root in '' | /*) ;; *) ask_python "$@" ;; esac
user=${XDG_RUNTIME_DIR:-/run}
for directory in "${root:-/run/runc}" "${root:-/run/crun}" "${root:-$user/runc}" "${root:-$user/crun}"; do
    test -e "$directory" || continue
    test -x "$directory" || ask_python "$@"
    test -e "$directory/$id" || continue
    test -e "$directory/$id/state.json" && ask_python "$@"
    { read_text <"$directory/$id/status"; } 2>/dev/null || ask_python "$@"
    find_pid '"pid":'
    test -e "/proc/$pid" && ask_python "$@"
done

# What its engine starts again keeps its GPUs for a moment, of which python knows more: a container of Docker with a
# restart policy, and of Podman where it is not removed at its end or is a service of Quadlet.
bundle=${text#*'"bundle":"'} bundle=${bundle%%'"'*}
case $bundle in
    */moby*/"$id")
        engine=/var/lib/docker/containers/$id
        if ! test -e "$engine/hostconfig.json"; then
            engine=$(grep -os "[^\"]*/$id/hosts\"" "$bundle/config.json")
            engine=${engine%%/hosts\"*}
        fi
        grep -qsE '"RestartPolicy":\{"Name":"(al|un|on)' "$engine/hostconfig.json" && ask_python "$@"
        ;;
    */userdata)
        # On one line; Podman 4 says FALSE of those that stay, Podman 5 nothing.
        grep -qsvE 'annotations.autoremove":"TRUE"' "$bundle/config.json" && ask_python "$@"
        grep -qs '\.service/libpod-payload-' "$bundle/config.json" && ask_python "$@"
        ;;
esac

# What the history has of it so far gets its end: in seconds since boot, because the wall clock may be set meanwhile.
history=${leases%/run/amd-container-toolkit/leases}/var/lib/amd-container-toolkit/history
name=${lease##*/}
begun=$history/open/${name%.json}
noted=''
{
    { IFS= read -r month && IFS= read -r text; } <"$begun" && IFS=' ' read -r end _ </proc/uptime &&
        case $month in [0-9][0-9][0-9][0-9]-[0-9][0-9]) ;; *) false ;; esac
} 2>/dev/null && {
    # Where it cannot be written, python notes why. A full disk loses the history and not the release.
    { printf '\n%s,"end":%s,"how":"hook"}\n' "$text" "$end" >>"$history/$month.jsonl"; } 2>/dev/null ||
        ask_python "$@"
    noted=${leases%/*}/unrecorded/history
}

# It holds the lock until it ends. What could not be recorded before is noted until something was recorded again.
exec rm -f -- "$lease" "$begun" "${noted:-$begun}"
