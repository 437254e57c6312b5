# shellcheck shell=sh
# lab.sh - hosts of its own for a file of functional tests; sourced after lib.sh.
#
#   netlab_needed N [PROGRAM...]   N hosts node1..nodeN (netlab.sh) from here to the file's end, or the file is skipped
#   slurmlab_needed N              the same with SLURM on them (slurm-lab.sh)
# and for the cases:
#   on I command...        on host I (node$I); output, signals and status as if it ran here
#   lab VERB...            netlab.sh: cut, heal, delay, kill, ip, ...
#   power_on I             host I again after `lab kill I`, with its slurmd
#   slurm command...       on node1 of the SLURM lab
#   nothing_left           no process on any host but its sshd and SLURM's; waits a second for the last ones
# The hosts are outside of the cases: `within` sees only what runs in front of them, so a case ends with nothing_left.

LAB=$(cd "$LIB/../lab" && pwd)
PATH=$PATH:/usr/sbin:/sbin
export LAB PATH
lab_end() {
    exec 9>&-
    if [ -n "${SLURMLAB_DIR:-}" ]; then bash "$LAB/slurm-lab.sh" stop; else bash "$LAB/netlab.sh" down; fi
    rm -rf "$TOP"
}

# A host that a case brings back lives on after the case, so it is no child of it: it asks us.
lab_switch() { # lab_switch VERB...: what brings host I back
    mkfifo "$TOP/switch"
    export LAB_SWITCH="$TOP/switch"
    while read -r lab_i; do "$@" "$lab_i" >>"$TOP/lab.log" 2>&1; done <"$TOP/switch" &
    exec 9>"$TOP/switch"
}
netlab_again() { bash "$LAB/netlab.sh" up "$LAB_HOSTS"; }

lab_needs() {
    [ "$(id -u)" -eq 0 ] || skip_all 'hosts need root'
    for program in ip nft nsenter "$@"; do
        command -v "$program" >/dev/null || skip_all "hosts need the program '$program'"
    done
    unshare --net --uts --mount --ipc --pid --fork true 2>/dev/null || skip_all 'this machine makes no namespaces'
    trap lab_end EXIT
}

netlab_needed() {
    lab_hosts=$1; shift
    export NETLAB_DIR="$TOP/net"
    lab_needs "$@"
    bash "$LAB/netlab.sh" up "$lab_hosts" >"$TOP/lab.log" 2>&1 || skip_all "no hosts here: $(tail -n 1 "$TOP/lab.log")"
    export LAB_HOSTS="$lab_hosts"
    lab_switch netlab_again
}

slurmlab_needed() {
    lab_hosts=$1
    lab_needs slurmctld slurmd munged srun
    export SLURMLAB_DIR="$TOP/slurm"
    bash "$LAB/slurm-lab.sh" start "$lab_hosts" >"$TOP/lab.log" 2>&1 || skip_all "no SLURM here: $(tail -n 1 "$TOP/lab.log")"
    export NETLAB_DIR="$SLURMLAB_DIR/net" NETLAB_NET=10.78.0 SLURM_CONF="$SLURMLAB_DIR/slurm.conf" LAB_HOSTS="$lab_hosts"
    lab_switch bash "$LAB/slurm-lab.sh" again
}

words <<'EOF_WORDS'
lab() { bash "$LAB/netlab.sh" "$@"; }
on() {
    on_pid=$(cat "$NETLAB_DIR/h$1.pid") || fail "host $1 is down"
    shift
    "$SUPPORT/labhelper" exec "$on_pid" "$@"
}
power_on() {
    echo "$1" >"$LAB_SWITCH"
    wait_for "on $1 ip addr show eth0 2>/dev/null | grep -q 'state UP'"
}
slurm() { on 1 "$@"; }
lab_left() {
    for lab_i in $(seq "$LAB_HOSTS"); do
        [ ! -r "$NETLAB_DIR/h$lab_i.pid" ] || lab left "$lab_i" | grep -vE 'slurmctld|slurmd|slurmstepd|slurmscriptd|munged'
    done
}
nothing_left() {
    lab_end_ms=$(($(now_ms) + 2000))
    while lab_left >left && [ -s left ]; do
        [ "$(now_ms)" -lt "$lab_end_ms" ] || { cat left; fail 'processes are left on the hosts'; }
        sleep 0.05
    done
}
EOF_WORDS
