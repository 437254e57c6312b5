#!/bin/bash
# ctr.sh NAME NETNS|- MEMORY|0 CMD... - CMD as process 1 of a real runc container: no daemon, no image.
#
# Its root is an overlay of this machine's root that is thrown away: what is installed here is in it, and nothing that
# it writes stays.  The status comes back (128+n for a signal), TERM and INT are passed on to process 1; MEMORY (bytes)
# is a cgroup v1 limit (out of memory: 137).  CTR_CGROUPS=1 keeps the cgroup mounts, read-only; else none is seen.
# NETNS joins a host of netlab.sh: /proc/$(netlab.sh pid I)/ns/net.  Needs root, runc, python3.  CTR_DIR: a folder.
# Also: CTR_USER=UID as whom, CTR_READONLY=1 a root that cannot be written to, CTR_PROC=OPTIONS of /proc (hidepid=2),
# CTR_SHM=SIZE of /dev/shm, CTR_CPUS=N a quota of v1 (1.5), CTR_ROOT=DIR another root than this machine's, as it is.
# While it runs, `runc --root "$CTR_DIR/NAME/state" exec NAME CMD...` runs a command in it.
[ $# -ge 4 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
set -e
name=$1 netns=$2 memory=$3
shift 3
: "${CTR_DIR:?}"
mkdir -p "$CTR_DIR"
B=$(mktemp -d "$CTR_DIR/c.XXXXXX")
ln -sfn "$B" "$CTR_DIR/$name"
cleanup() {
    rm -f "$CTR_DIR/$name"
    umount -l "$B/ov/root" 2>/dev/null
    umount -l "$B/ov" 2>/dev/null
    rm -rf --one-file-system "$B"
    rmdir /sys/fs/cgroup/*/ccrunlab/"$name" /sys/fs/cgroup/*/ccrunlab 2>/dev/null || true
}
trap cleanup EXIT
mkdir "$B/ov"
mount -t tmpfs ctr "$B/ov"
mkdir "$B/ov/up" "$B/ov/work" "$B/ov/root"
mount -t overlay ctr -o "lowerdir=${CTR_ROOT:-/},upperdir=$B/ov/up,workdir=$B/ov/work" "$B/ov/root"
(cd "$B" && runc spec)
python3 - "$B/config.json" "$name" "$netns" "$memory" "$@" <<'PY'
import json, os, sys
path, name, netns, memory, *args = sys.argv[1:]
spec = json.load(open(path))
spec["process"].update(terminal=False, args=args, rlimits=[], capabilities={},
                       env=["PATH=" + os.environ["PATH"], "HOME=/root"])
spec.update(root={"path": "ov/root", "readonly": False}, hostname=name)
spec["linux"]["cgroupsPath"] = "/ccrunlab/" + name
if os.environ.get("CTR_CGROUPS") != "1":
    spec["mounts"] = [m for m in spec["mounts"] if m["type"] != "cgroup"]
env = os.environ.get
if env("CTR_USER"):
    spec["process"]["user"] = {"uid": int(env("CTR_USER")), "gid": int(env("CTR_USER"))}
spec["root"]["readonly"] = env("CTR_READONLY") == "1"
for mount in spec["mounts"]:
    if mount["destination"] == "/proc" and env("CTR_PROC"):
        mount["options"] = mount.get("options", []) + [env("CTR_PROC")]
    if mount["destination"] == "/dev/shm" and env("CTR_SHM"):
        mount["options"] = [o for o in mount["options"] if not o.startswith("size=")] + ["size=" + env("CTR_SHM")]
if env("CTR_CPUS"):
    spec["linux"]["resources"]["cpu"] = {"quota": int(float(env("CTR_CPUS")) * 100000), "period": 100000}
for ns in spec["linux"]["namespaces"]:
    if ns["type"] == "network" and netns != "-":
        ns["path"] = netns
if netns == "-": # as docker does
    spec["linux"]["sysctl"] = {"net.ipv4.ip_unprivileged_port_start": "0"}
if int(memory) > 0:
    spec["linux"]["resources"]["memory"] = {"limit": int(memory)}
json.dump(spec, open(path, "w"))
PY
runc --root "$B/state" run -b "$B" "$name" &
p=$!
trap 'kill -TERM $p' TERM
trap 'kill -INT $p' INT
set +e
while :; do
    wait $p
    status=$?
    kill -0 $p 2>/dev/null || break
done
exit "$status"
