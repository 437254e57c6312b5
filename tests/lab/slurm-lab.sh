#!/bin/bash
# slurm-lab.sh - a real SLURM (Debian's slurmctld, slurmd, munge) of N nodes on this one machine, as root.
# Every node is a host of netlab.sh; slurmctld runs on node1.
#   start [N]        N nodes (default 2), wait until all are idle; does nothing when it is up already
#   stop             end everything that this lab started and remove its files
#   exec CMD...      run CMD (sbatch, srun, squeue, ...) on node1
#   exec-on I CMD... the same on node I
#   net VERB...      a verb of netlab.sh in this lab: kill, cut, left, ...
#   again I          start slurmd on node I again after `net kill I`
# Environment: SLURMLAB_DIR (needed; short, and every node sees it), SLURMLAB_CPUS (CPUs that a node claims, default
#   4, whatever the machine has), SLURMLAB_GPUS (false GPUs of a node, default 0), SLURMLAB_EXTRA (lines of slurm.conf)
# Partitions: low (default; preempted by requeue after GraceTime) and high.
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
D=${SLURMLAB_DIR:?}
export NETLAB_DIR=$D/net NETLAB_NET=${NETLAB_NET:-10.78.0} NETLAB_NODE=node SLURM_CONF=$D/slurm.conf
die() { echo "slurm-lab: $*" >&2; exit 1; }
net() { bash "$HERE/netlab.sh" "$@"; }
on() { net exec "$@"; }
is_up() { [ -e "$D/up" ] && on 1 scontrol ping 2>/dev/null | grep -q 'is UP'; }

# False devices: character devices that nobody opens.
gpus() {
    local i files=
    : >"$D/gres.conf"
    [ "${SLURMLAB_GPUS:-0}" -gt 0 ] || return 0
    mkdir -p "$D/dev"
    for i in $(seq 0 $((SLURMLAB_GPUS - 1))); do
        [ -e "$D/dev/nvidia$i" ] || mknod "$D/dev/nvidia$i" c 1 3
        files=$files${files:+,}$D/dev/nvidia$i
    done
    echo "Name=gpu File=$files" >"$D/gres.conf"
    echo "Gres=gpu:$SLURMLAB_GPUS"
}

conf() { # conf N GRES
    local i
    echo 'CgroupPlugin=cgroup/v1' >"$D/cgroup.conf"
    echo 'PMIxCliTmpDirBase=/run' >"$D/mpi.conf" # /tmp is common to the nodes, /run is not
    cat >"$SLURM_CONF" <<C
ClusterName=lab
SlurmctldHost=node1($NETLAB_NET.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$D/munge/socket,cred_expire=5
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool.%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd.%n.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd.%n.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
MpiDefault=none
ReturnToService=2
SlurmdTimeout=${SLURMLAB_NODE_TIMEOUT:-20}
InactiveLimit=0
KillWait=5
MinJobAge=600
WaitTime=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,bf_interval=2
PlugStackConfig=/dev/null
GresTypes=gpu
NodeName=DEFAULT CPUs=${SLURMLAB_CPUS:-4} RealMemory=4000 $2 State=UNKNOWN
$(for i in $(seq "$1"); do echo "NodeName=node$i NodeAddr=$NETLAB_NET.$i"; done)
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 OverSubscribe=NO
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF OverSubscribe=NO
${SLURMLAB_EXTRA:-}
C
}

# One munged serves every node: its socket is a path, not an address.  --force: it may run as root, under /tmp.
munge() {
    dd if=/dev/urandom of="$D/munge/key" bs=128 count=1 status=none
    chmod 400 "$D/munge/key"
    chmod 711 "$D/munge"
    on 1 munged --force --key-file="$D/munge/key" --socket="$D/munge/socket" --pid-file="$D/munge/pid" \
        --log-file="$D/munge/log" --seed-file="$D/munge/seed" 2>"$D/munge/err" || { cat "$D/munge/err" >&2; die munged; }
}

idle() { on 1 sinfo -h -N -p low -t idle -o %N 2>/dev/null | sort -u | grep -c .; }
node() { mkdir -p "$D/spool.node$1"; on "$1" slurmd -N "node$1" -f "$SLURM_CONF" || die "slurmd on node$1"; }

start() {
    local n=${1:-2} i program
    [ "$(id -u)" = 0 ] || die 'needs root'
    for program in slurmctld slurmd munged srun; do
        command -v $program >/dev/null || die "$program is missing: apt-get install slurm-wlm slurmctld slurmd munge"
    done
    if is_up && [ "$(cat "$D/up")" = "$n" ]; then return 0; fi
    [ ! -e "$D/up" ] || stop
    mkdir -p "$D/state" "$D/munge" || exit 1
    chmod 755 "$D"
    echo "$n" >"$D/up"
    net up "$n" || die netlab
    conf "$n" "$(gpus)"
    munge
    on 1 slurmctld -f "$SLURM_CONF" || die slurmctld
    for i in $(seq "$n"); do node "$i"; done
    for _ in $(seq 150); do
        [ "$(idle)" != "$n" ] || return 0
        sleep .1
    done
    on 1 sinfo -N -l
    die "nodes did not come up in 15 s; see $D/*.log"
}

# Every daemon and job is in a host's PID namespace and dies with it.
stop() {
    [ -e "$D/up" ] || return 0
    net down
    rm -rf "$D/state" "$D"/spool.* "$D/munge" "${D:?}/dev" "$D"/*.conf "$D"/*.log "$D"/*.pid "$D/up"
    rmdir "$D" 2>/dev/null
    return 0
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
start) start "$@" ;;
stop) stop ;;
exec) on 1 "$@" ;;
exec-on) on "$@" ;;
net) net "$@" ;;
again) net up "$(cat "$D/up")" && node "$1" ;;
*) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
