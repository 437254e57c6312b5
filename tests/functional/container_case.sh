# shellcheck shell=sh
# container_case.sh - containers for a file of functional tests; sourced after lib.sh.
#
#   containers_needed      real ones (runc), or the file is skipped
# and for the cases:
#   ctr NAME command...    the command is process 1 of a container; its output and status come back, signals go to it.
#                          The variables of ../lab/ctr.sh count; MEMORY is a limit in bytes, NETNS a network.
#   bg_ctr NAME command... the same in the background, as bg does
#   ctr_exec NAME command... in a container that runs

CTR=$(cd "$LIB/../lab" && pwd)/ctr.sh
CTR_DIR=$TOP/containers
CTR_ID=$$
PATH=$PATH:/usr/sbin:/sbin
export CTR CTR_DIR CTR_ID PATH

# A container that was killed with the test leaves its root mounted, and its control groups.
containers_end() {
    for ctr_mount in "$CTR_DIR"/c.*/ov/root "$CTR_DIR"/c.*/ov; do
        [ ! -d "$ctr_mount" ] || umount -l "$ctr_mount" 2>/dev/null
    done
    rmdir /sys/fs/cgroup/*/ccrunlab/*-"$CTR_ID" /sys/fs/cgroup/*/ccrunlab 2>/dev/null
    rm -rf "$TOP"
}

containers_needed() {
    [ "$(id -u)" -eq 0 ] || skip_all 'containers need root'
    for program in runc python3; do
        command -v "$program" >/dev/null || skip_all "containers need the program '$program'"
    done
    ! grep -q __asan_init "$CCRUN" || skip_all 'a sanitizer changes what process 1 is'
    trap containers_end EXIT
    bash "$CTR" "probe-$CTR_ID" - 0 true >"$TOP/ctr.log" 2>&1 || skip_all "no containers here: $(tail -n 1 "$TOP/ctr.log")"
}

words <<'END'
ctr() {
    ctr_name=$1; shift
    bash "$CTR" "$ctr_name-$CTR_ID" "${NETNS:--}" "${MEMORY:-0}" "$@"
}
ctr_exec() {
    ctr_name=$1-$CTR_ID; shift
    [ -d "$CTR_DIR/$ctr_name/state/$ctr_name" ] || return 1 # runc would make the folder
    runc --root "$CTR_DIR/$ctr_name/state" exec "$ctr_name" "$@"
}
bg_ctr() {
    ctr_name=$1; shift
    bg "$ctr_name" bash "$CTR" "$ctr_name-$CTR_ID" "${NETNS:--}" "${MEMORY:-0}" "$@"
}
END
