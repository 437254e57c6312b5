#!/bin/bash
# netlab.sh - N "hosts" on this one machine: each has its own network, UTS, PID, IPC and mount namespace, host name,
# /etc/hosts, /dev/shm and /run.  All sit on one bridge, which is in a namespace of its own: no packet can leave.
# Needs root, iproute2, nft for a cut between two hosts, openssh-server for sshd, and labhelper (tests/support).
#   up N            make hosts 1..N (names node1..nodeN, addresses 10.77.0.I); with the same N again: makes what is gone
#   down            end every process of every host and remove the lab
#   status          one line a host
#   exec I CMD...   run CMD on host I: stdio, signals and the exit status pass through (128+n for a signal)
#   left I          the processes of host I, one a line, without its init and sshd
#   ip I | name I | pid I
#   cut I [J]       host I off the network (its link goes down at the switch); with J: only I<->J, silently dropped
#   heal I [J]      undo; `heal all` undoes every cut, delay and loss
#   delay I MS [LOSS]  every frame of host I waits MS milliseconds each way; LOSS per mille are lost
#   kill I          power cut: every process on host I dies at once (its namespaces go too); `up N` brings it back
#   sshd I | all    start sshd on host I; `$NETLAB_DIR/bin/ssh nodeJ CMD` then works from any host of the lab
# Environment: NETLAB_DIR (needed; keep it short), NETLAB_NET (10.77.0), NETLAB_NODE (node), SUPPORT (of labhelper).
# Two labs at once: each has its own NETLAB_DIR; the networks are separate even with equal addresses.
set -u
D=${NETLAB_DIR:?} NET=${NETLAB_NET:-10.77.0} NODE=${NETLAB_NODE:-node}
H=${SUPPORT:-$(cd "$(dirname "$0")/../.." && pwd)/build/bin/tests}/labhelper
die() { echo "netlab: $*" >&2; exit 1; }
is_number() { case ${1:-} in '' | *[!0-9]*) die "want a host number, got '${1:-}'" ;; esac }

# A process is its PID and its start time: PIDs are used again.
started() { awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$1/stat" 2>/dev/null; }
alive() {
    local p s
    p=$(cat "$D/$1.pid" 2>/dev/null) s=$(cat "$D/$1.start" 2>/dev/null)
    [ -n "$p" ] && [ -n "$s" ] && [ "$(started "$p")" = "$s" ]
}
pid() { alive "$1" || die "$1 is not up"; cat "$D/$1.pid"; }
on_switch() { "$H" exec "$(pid sw)" "$@"; }
on() { local i=$1; shift; "$H" exec "$(pid "h$i")" "$@"; }
hosts() { local n=0; [ ! -r "$D/n" ] || n=$(cat "$D/n"); seq "$n"; }

hold() { # hold NAME HOSTNAME
    # shellcheck disable=SC2016 # for the shell in the namespace
    "$H" hold "$D/$1.pid" /bin/sh -c '
        hostname "$1" && ip link set lo up &&
        mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/sshd /run/lock &&
        echo "$1" >"$2/etc/hostname.$1" && mount --bind "$2/etc/hosts" /etc/hosts &&
        { [ ! -e /etc/hostname ] || mount --bind "$2/etc/hostname.$1" /etc/hostname; } &&
        { sysctl -qw net.ipv6.conf.all.disable_ipv6="${NETLAB_NO_IPV6:-0}" 2>/dev/null || :; }
    ' sh "$2" "$D" || die "cannot make $1"
    started "$(cat "$D/$1.pid")" >"$D/$1.start"
}

# stop NAME: end the namespaces' init; the kernel ends the rest.
stop() {
    local p
    if alive "$1"; then
        p=$(cat "$D/$1.pid")
        kill -KILL "$p" 2>/dev/null
        for _ in $(seq 500); do alive "$1" || break; sleep .01; done
    fi
    rm -f "$D/$1.pid" "$D/$1.start"
}

no_relay() {
    local f=$D/relay$1.pid
    [ -r "$f" ] || return 0
    ! alive "relay$1" || kill -KILL "$(cat "$f")"
    rm -f "$f" "$D/relay$1.start"
    on_switch ip link del "d$1" 2>/dev/null
    on_switch ip link set "s$1" master br0 2>/dev/null
    return 0
}

up() {
    local n=$1 i p
    { [ "$n" -ge 1 ] && [ "$n" -le 250 ]; } || die 'up: 1 to 250 hosts'
    [ "$(id -u)" = 0 ] || die 'needs root'
    [ -x "$H" ] || die "no $H: make helpers"
    mkdir -p "$D/etc" "$D/bin" || exit 1
    [ ! -r "$D/n" ] || [ "$(cat "$D/n")" = "$n" ] || down
    mkdir -p "$D/etc" "$D/bin" || exit 1
    {
        echo '127.0.0.1 localhost'
        echo '::1 localhost ip6-localhost'
        for i in $(seq "$n"); do echo "$NET.$i $NODE$i"; done
    } >"$D/etc/hosts"
    echo "$n" >"$D/n"
    if ! alive sw; then
        for i in $(hosts); do stop "h$i"; done
        hold sw switch
    fi
    on_switch sh -c 'ip link show br0 >/dev/null 2>&1 || ip link add br0 type bridge; ip link set br0 up' || die 'no bridge'
    p=$(pid sw)
    for i in $(seq "$n"); do
        ! alive "h$i" || continue
        rm -f "$D/relay$i.pid"
        hold "h$i" "$NODE$i"
        on_switch ip link del "s$i" 2>/dev/null
        nsenter -t "$(pid "h$i")" -n ip link add eth0 type veth peer name "s$i" netns "$p" || die "no link for host $i"
        on_switch ip link set "s$i" master br0 up
        # The same address after a power cut, or the others would send to the old one until they doubt it.
        on "$i" ip link set eth0 address "$(printf '02:00:0a:4d:00:%02x' "$i")"
        on "$i" sh -c "ip addr add $NET.$i/24 dev eth0 && ip link set eth0 up" || die "no address for host $i"
    done
}

down() {
    local i
    for i in $(hosts); do no_relay "$i" 2>/dev/null; stop "h$i"; done
    stop sw
    [ ! -e "$D/n" ] || {
        rm -rf "${D:?}/etc" "${D:?}/bin" "$D/ssh" "$D/n" "$D"/*.pid "$D"/*.start
        rmdir "$D" 2>/dev/null
    }
    return 0
}

status() {
    local i
    for i in $(hosts); do
        if alive "h$i"; then
            echo "$i $NODE$i $NET.$i up pid $(cat "$D/h$i.pid")$([ ! -e "$D/relay$i.pid" ] || echo ' delayed')"
        else
            echo "$i $NODE$i $NET.$i down"
        fi
    done
}

drop() { # drop AT FROM
    on "$1" nft "add table inet lab; add chain inet lab in { type filter hook input priority -300; }; \
                 add rule inet lab in ip saddr $NET.$2 drop" || die nft
}
no_drop() {
    local h
    for h in $(on "$1" nft -a list chain inet lab in 2>/dev/null | sed -n "s/.*saddr $NET.$2 drop # handle //p"); do
        on "$1" nft delete rule inet lab in handle "$h"
    done
}
heal_all() {
    local i
    for i in $(hosts); do
        no_relay "$i"
        on_switch ip link set "s$i" up
        on "$i" nft delete table inet lab 2>/dev/null
    done
    return 0
}

delay() {
    local i=$1 ms=$2 loss=$3 j us
    no_relay "$i"
    us=$(awk -v ms="$ms" 'BEGIN { printf "%d", ms * 1000 }')
    { [ "$us" != 0 ] || [ "$loss" != 0 ]; } || return 0
    for j in $(hosts); do on "$j" "$H" rawlink eth0; done
    # shellcheck disable=SC2016 # for the shell inside
    on_switch sh -c 'ip link set "s$1" nomaster; ip link add "d$1" type veth peer name "e$1" && ip link set "d$1" up &&
        ip link set "e$1" master br0 up && "$0" rawlink "d$1" && "$0" rawlink "e$1" && "$0" rawlink "s$1"' "$H" "$i" ||
        die 'no relay link'
    setsid "$H" exec "$(pid sw)" "$H" relay "s$i" "d$i" "$us" "$loss" </dev/null >/dev/null 2>&1 &
    echo $! >"$D/relay$i.pid"
    started $! >"$D/relay$i.start"
}

keys() {
    local key
    [ ! -e "$D/bin/ssh" ] || return 0
    mkdir -p "$D/ssh" && chmod 700 "$D/ssh"
    for key in host id; do ssh-keygen -q -t ed25519 -N '' -f "$D/ssh/$key" || die ssh-keygen; done
    cp "$D/ssh/id.pub" "$D/ssh/authorized"
    printf '%s\n' "HostKey $D/ssh/host" "AuthorizedKeysFile $D/ssh/authorized" 'PidFile none' 'StrictModes no' \
        'UsePAM no' 'PermitRootLogin prohibit-password' 'PasswordAuthentication no' 'UseDNS no' 'MaxStartups 100' \
        >"$D/ssh/sshd_config"
    printf '%s\n' 'Host *' ' User root' " IdentityFile $D/ssh/id" ' IdentitiesOnly yes' ' StrictHostKeyChecking no' \
        ' UserKnownHostsFile /dev/null' ' LogLevel ERROR' ' BatchMode yes' >"$D/ssh/config"
    # shellcheck disable=SC2016 # for the script
    printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$D/ssh/config" >"$D/bin/ssh"
    chmod +x "$D/bin/ssh"
}
# sshd goes into the background by itself once it listens.
sshd() {
    on "$1" sh -c "ss -Hltn sport = :22 2>/dev/null | grep -q . ||
        /usr/sbin/sshd -f $D/ssh/sshd_config -E $D/ssh/sshd$1.log" || die "sshd on host $1"
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
up) is_number "${1:-}"; up "$1" ;;
down) down ;;
status) status ;;
exec) is_number "${1:-}"; i=$1; shift; [ $# -gt 0 ] || die 'exec: no command'; p=$(pid "h$i") || exit 1; exec "$H" exec "$p" "$@" ;;
left) is_number "${1:-}"; on "$1" ps -eo pid=,stat=,args= | grep -vE '^ *1 |^ *[0-9]+ Z|sshd|ps -eo' ;;
ip) is_number "${1:-}"; echo "$NET.$1" ;;
name) is_number "${1:-}"; echo "$NODE$1" ;;
pid) is_number "${1:-}"; pid "h$1" ;;
cut) is_number "${1:-}"; if [ $# -gt 1 ]; then is_number "$2"; drop "$1" "$2"; drop "$2" "$1"; else on_switch ip link set "s$1" down; fi ;;
heal)
    if [ "${1:-}" = all ]; then heal_all
    elif is_number "${1:-}"; [ $# -gt 1 ]; then is_number "$2"; no_drop "$1" "$2"; no_drop "$2" "$1"
    else on_switch ip link set "s$1" up
    fi ;;
delay) is_number "${1:-}"; delay "$1" "${2:-0}" "${3:-0}" ;;
kill) is_number "${1:-}"; stop "h$1" ;;
sshd)
    keys
    # shellcheck disable=SC2046 # numbers
    [ "${1:-}" != all ] || set -- $(hosts)
    for i in "$@"; do is_number "$i"; sshd "$i"; done ;;
*) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
