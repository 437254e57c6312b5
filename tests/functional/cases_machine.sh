#!/bin/sh
# Complaints about launchers: jobs that meet, ports open to all, ranks, binding to CPUs.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# listens PID: where the keeper PID and its agent listen, as ADDRESS:PORT in hex as /proc shows it.  One reading of /proc/net
# may miss a socket while others come and go.
listens() {
    wait_for 'for p in '"$1"' $(pgrep -P '"$1"'); do ls -l "/proc/$p/fd"; done | sed -n "s/.*socket:.\([0-9]*\).$/\1/p" >inodes
        awk "NR == FNR { own[\$1]; next } \$4 == \"0A\" && \$10 in own { print \$2 }" inodes /proc/net/tcp* >listening
        [ -s listening ]'
    cat listening
}
hex_port() { printf %04X "$1"; }
EOF

it 'C07: eight jobs at once on one machine do not meet' <<'EOF'
for i in 1 2 3 4 5 6 7 8; do
    bg job$i "$CCRUN" --nproc-per-node 2 --no-python sh -c 'echo "$1 $MASTER_PORT $WORLD_SIZE"; until [ -e go ]; do sleep 0.05; done' - $i
    eval "pid$i=$pid"
done
wait_for '[ "$(cat job?.out | wc -l)" -eq 16 ]'
same 8 "$(sort -u job?.out | wc -l)"
same 8 "$(cut -d' ' -f2 job?.out | sort -u | wc -l)"
touch go
for i in 1 2 3 4 5 6 7 8; do eval "ends \$pid$i 0"; empty job$i.err; done
EOF

it 'C10: the store listens where the workers look for it, and nowhere else' <<'EOF'
for option in '' --standalone '--master-addr 127.0.0.1' '--rdzv-backend c10d --rdzv-endpoint localhost:0'; do
    bg job "$CCRUN" $option --no-python sh -c 'echo "$MASTER_PORT"; exec sleep 50'
    wait_for '[ -s job.out ]'
    same "0100007F:$(hex_port "$(cat job.out)")" "$(listens $pid)"
    kill $pid
    ends $pid 143
done
EOF

it 'C10: a named address and port are the only ones' <<'EOF'
for option in '--rdzv-backend=c10d --rdzv-endpoint=127.0.0.2:' '--master-addr=127.0.0.2 --master-port='; do
    port=$("$SUPPORT/freeport")
    bg job "$CCRUN" $option"$port" --no-python sh -c 'echo "$MASTER_ADDR $MASTER_PORT"; exec sleep 50'
    wait_for '[ -s job.out ]'
    same "127.0.0.2 $port" "$(cat job.out)"
    same "0200007F:$(hex_port "$port")" "$(listens $pid)"
    kill $pid
    ends $pid 143
done
EOF

it 'C16: every worker of a node knows where it stands' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 3 --role trainer --no-python sh -c \
    'echo "$RANK $LOCAL_RANK $ROLE_RANK $GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $ROLE_WORLD_SIZE $GROUP_WORLD_SIZE $ROLE_NAME"'
same '0 0 0 0 3 3 3 1 trainer,1 1 1 0 3 3 3 1 trainer,2 2 2 0 3 3 3 1 trainer' "$(sort out | paste -sd,)"
EOF

it 'C16: without a value the count is the slots of the host file' <<'EOF'
printf '%s\n' "$(hostname)" other "$(hostname)" other >nodes
expect_status 0 env PBS_JOBID=1 PBS_NODEFILE="$PWD/nodes" "$CCRUN" --no-python sh -c 'echo "$WORLD_SIZE"'
same '2 2' "$(paste -sd' ' out)"
EOF

it 'C71: workers are bound near their NUMA node, before they run, and never outside the inherited mask' <<'EOF'
[ "$(nproc)" -ge 2 ] && unshare -m true 2>/dev/null || skip 'two CPUs and a mount namespace are needed'
cp -r /sys/devices/system/node node 2>/dev/null || true
rm -rf node/node*
for n in 0 1; do mkdir -p node/node$n; echo $n >node/node$n/cpulist; done
for f in online possible has_cpu has_memory; do echo 0-1 >node/$f 2>/dev/null; done
bound() { # bound 'command in front': mask of each rank
    unshare -m sh -c 'mount --bind node /sys/devices/system/node && exec '"$1"' "$CCRUN" --nproc-per-node 4 --numa-binding node \
        --no-python sh -c "echo \$RANK \$(taskset -cp \$\$ | sed s/.*:.//)"' | sort | paste -sd,
}
same '0 0,1 0,2 1,3 1' "$(bound 'taskset -c 0,1')"
same '0 1,1 1,2 1,3 1' "$(bound 'taskset -c 1')"
EOF
done_testing
