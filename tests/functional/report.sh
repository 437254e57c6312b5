#!/bin/sh
# Why did the job fail?  The report on standard error, its JSON, the error files, and the exit status.
#
# Where torchrun differs: it exits with 1 always; prints a Python traceback and a block for each failure, the whole call
# stack in it, without a stderr tail; takes whole seconds for the order of failures; and dies of an error file that it
# cannot read.  The names in the block (time host rank exitcode error_file traceback) and their texts are its own.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# job NPROC 'shell script of a worker' [option...]: $LOCAL_RANK tells it who it is.  Output in out and err, status in $st.
job() {
    job_n=$1 job_script=$2; shift 2
    st=0
    "$CCRUN" --nproc-per-node "$job_n" "$@" --no-python sh -c "$job_script" >out 2>err || st=$?
}
# json 'path.to.member' FILE: its value, without quotes.
json() { json_path=$1; shift; "$SUPPORT/jsonget" "$json_path" "$@"; }
EOF

it 'exits with the code of the first worker that failed (C44, M7, M9)' <<'EOF'
for code in 1 3 7 77 138 255; do
    job 2 "[ \$LOCAL_RANK = 1 ] || exec sleep 60; exit $code"
    same $code $st
    has err "rank 1 (local_rank: 1" "exited with code $code" "  exitcode  : $code (pid: "
done
EOF

it 'exits with 128 + the signal that killed it (C44, M10, M13, E4, E7)' <<'EOF'
for pair in KILL:9 SEGV:11 ABRT:6 HUP:1 PIPE:13 USR1:10 TERM:15; do
    job 2 "[ \$LOCAL_RANK = 1 ] || exec sleep 60; kill -${pair%:*} \$\$"
    same $((128 + ${pair#*:})) $st
    has err "was killed by SIG${pair%:*}" "  exitcode  : -${pair#*:} (pid: " "(SIG${pair%:*})"
    matches err "traceback : Signal ${pair#*:} \(SIG${pair%:*}\) received by PID [0-9]+"
done
EOF

it 'says who failed first, when, and what the others did (W4, E5, E6)' <<'EOF'
job 4 '[ $LOCAL_RANK = 2 ] || exec sleep 60; exit 3'
matches err '^ccrun: ChildFailedError: sh FAILED: rank 2 \(local_rank: 2, pid: [0-9]+\) on [^ ]+ exited with code 3 at [0-9:]{8} after [0-9.]+ s, attempt 1 of 1$'
has err 'Root Cause (first observed failure):' '  rank      : 2 (local_rank: 2)' '  error_file: <N/A>' \
    '  traceback : <N/A>' \
    'Others: 0 ended with 0, 3 stopped by ccrun, 0 failed too' '  ranks 0-1,3: SIGTERM by ccrun'
matches err '^  time      : [0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}:[0-9]{2}:[0-9]{2}$'
matches err '^  host      : .'
EOF

it 'sends Python to the page of PyTorch, and no other program' <<'EOF'
ln -s /bin/sh python3
expect_status 3 "$CCRUN" --no-python ./python3 -c 'exit 3'
has err 'To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html'
job 1 'echo no mesh >&2; exit 3'
has err '  traceback : see stderr below' '  no mesh'
lacks err pytorch.org
EOF

it 'a peer that ends with 0 when told to is no failure (W5)' <<'EOF'
job 2 '[ $LOCAL_RANK = 0 ] && { : >ready; trap "exit 0" TERM; while :; do sleep 0.05; done; }
       until [ -e ready ]; do sleep 0.02; done; exit 3'
same 3 $st
has err 'Others: 1 ended with 0, 0 stopped by ccrun, 0 failed too'
lacks err SIGTERM
EOF

it 'a worker that we had to kill is told, and never lends its signal' <<'EOF'
job 2 '[ $LOCAL_RANK = 0 ] && { trap "" TERM; : >ready; while :; do sleep 0.05; done; }
       until [ -e ready ]; do sleep 0.02; done; exit 5' --shutdown-timeout 1 --report r.json
same 5 $st
has err 'rank 0: SIGKILL by ccrun after the grace time'
same ccrun_after_grace "$(json failures.1.ended_by r.json)"
has r.json 'sent by ccrun after the grace time of 1 s'
EOF

it 'the last 20 lines of that rank stderr are shown, and of no other' <<'EOF'
job 2 '[ $LOCAL_RANK = 0 ] && { echo other >&2; : >ready; exec sleep 60; }
       until [ -e ready ]; do sleep 0.02; done; seq -f "line %g" 1 30 >&2; printf "last\033[31m" >&2; exit 1'
has err 'Last 20 lines of stderr of rank 1:' '  line 12' '  line 30' '  last\x1b[31m'
sed -n '/^Last 20/,$p' err >tail
same 21 "$(wc -l <tail)"
lacks tail other 'line 11'
EOF

it 'fifteen lines are enough for 64 failures' <<'EOF'
job 64 'exit $((LOCAL_RANK % 7 + 1))' --report r.json
sed -n '/^ccrun: ChildFailedError/,$p' err >report
[ "$(wc -l <report)" -le 15 ] || fail "$(cat report)"
EOF

it 'an error file is read: both forms, and the exception is named (E2, E3, M8)' <<'EOF'
now=$(date +%s)
job 1 'printf "{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": {\"py_callstack\": \"x\", \"timestamp\": \"'$now'\"}}}" >"$TORCHELASTIC_ERROR_FILE"; exit 1'
has err '  traceback : ValueError: boom'
lacks err 'Last '
job 1 'printf "{\"message\": \"bad luck\", \"timestamp\": '$now'}" >"$TORCHELASTIC_ERROR_FILE"; exit 1' --log-dir logs
has err '  traceback : bad luck'
matches err '^  error_file: .*logs/.*attempt_0/0/error.json$'
EOF

it 'an error file that cannot be used is a note, never the end of ccrun (E1, B11)' <<'EOF'
for how in ': >F' 'printf "{\"mess" >F' 'echo "{\"msg\": 1}" >F' 'mkdir F' 'mkfifo F' 'ln -s /etc/passwd F' \
    'head -c 2000000 /dev/zero >F' 'printf "\377\376" >F'; do
    job 2 "[ \$LOCAL_RANK = 1 ] || exec sleep 60; F=\$TORCHELASTIC_ERROR_FILE; $(echo "$how" | sed 's/F$/"$F"/'); echo why >&2; exit 9"
    same 9 $st
    has err '  error_file: <N/A> (the error file' 'is ignored: ' '  why'
done
EOF

it 'a launcher above gets the error file, with the exit code in it (E9, E10, E11, A25)' <<'EOF'
export TORCHELASTIC_ERROR_FILE="$PWD/parent.json"
write='printf "{\"message\": {\"message\": \"ValueError: boom\"}}" >"$TORCHELASTIC_ERROR_FILE"'
job 1 'exit 3'
[ ! -e parent.json ]
echo old >parent.json
job 1 "$write; exit 3"
same 3 "$(json message.errorCode parent.json)"
same 'ValueError: boom' "$(json message.message parent.json)"
job 1 "$write; kill -SEGV \$\$"
same -11 "$(json message.errorCode parent.json)"
EOF

it 'without a parent nothing is copied and nothing is left (E12)' <<'EOF'
unset TORCHELASTIC_ERROR_FILE
export TMPDIR="$PWD/tmp"
mkdir tmp
job 1 'echo "{\"message\": \"boom\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 3'
has err 'traceback : boom' '  error_file: <N/A>'
same '' "$(ls tmp)"
EOF

it 'SIGKILL by somebody else is called so' <<'EOF'
job 1 'kill -KILL $$' --report r.json
same 137 $st
matches err 'evidence  : (sender unknown \(not ccrun; |probably out of memory)'
EOF

it 'a crash tells of the core' <<'EOF'
ulimit -c 0
job 1 'kill -SEGV $$'
matches err 'evidence  : (no core dumped: RLIMIT_CORE is 0; |no core dumped; cores are piped to |core dumped: )'
EOF

it 'the codes of a shell get a hint' <<'EOF'
job 1 '/no/such/program'
same 127 $st
has err 'a command that was not found'
EOF

it 'the JSON tells the same, attempt by attempt' <<'EOF'
job 2 '[ $LOCAL_RANK = 0 ] && exec sleep 60; exit $((TORCHELASTIC_RESTART_COUNT + 4))' --max-restarts 2 --report r.json \
    --rdzv-id 42
same 6 $st
same '1 failed 6 2 42 1 -15' "$(json version r.json) $(json outcome r.json) $(json exit_status r.json) \
$(json world_size r.json) $(json run_id r.json) $(json first_failure.rank r.json) $(json failures.1.exitcode r.json)"
same '4 5' "$(json attempts.0.first_failure.exitcode r.json) $(json attempts.1.first_failure.exitcode r.json)"
has err 'attempt 3 of 3' 'Report: r.json'
same r.json "$(ls r.json*)"
EOF

it 'a restart is announced with its reason, and is no report' <<'EOF'
job 2 '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $LOCAL_RANK = 1 ] || exec sleep 60; exit 4' --max-restarts 1
same 0 $st
matches err '^ccrun: rank 1 .local_rank: 1, pid: [0-9]+. exited with code 4 after [0-9.]+ s; restarting all 2 workers, restart 1 of 1$'
lacks err ChildFailedError
EOF

it 'a job that succeeds has a report too, and says nothing' <<'EOF'
job 2 'exit 0' --report r.json
same 0 $st
empty err
same 'succeeded null 0' "$(json outcome r.json) $(json first_failure r.json) $(json exit_status r.json)"
EOF

it 'a report that cannot be written is said, and the status stays the worker'"'"'s' <<'EOF'
job 1 'exit 3' --report /dev/full
same 3 $st
has err 'No space left on device'
EOF

it 'a stop is no failure' <<'EOF'
bg job "$CCRUN" --report r.json --no-python sh -c ': >ready; exec sleep 60'
wait_for '[ -e ready ]'
kill -TERM "$pid"
ends "$pid" 143
lacks job.err ChildFailedError
same stopped "$(json outcome r.json)"
EOF

# A memory cgroup of our own: only where one may be made.
it 'a failure that ended the job is told, also when somebody stops what is left of it' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 --report r.json --no-python sh -c '
    [ $LOCAL_RANK = 1 ] || { until [ -e up ]; do sleep 0.02; done; exit 7; }
    trap "" INT; trap "echo told" TERM; : >up; while :; do sleep 0.1; done'
wait_for 'grep -q told job.out'
kill -INT $pid
again=$(($(now_ms) + 100)) # the same key, pressed twice
wait_for '[ "$(now_ms)" -ge $again ]'
kill -INT $pid
ends $pid 7
has job.err 'FAILED: rank 0' 'second SIGINT'
same failed "$(json outcome r.json)"
EOF

it 'out of memory is proved by the cgroup' <<'EOF'
v1=/sys/fs/cgroup/memory/ccrun-test-$$ v2=/sys/fs/cgroup/ccrun-test-$$
if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    group=$v1 limit=memory.limit_in_bytes counter=memory.oom_control
else
    group=$v2 limit=memory.max counter=memory.events
fi
mkdir "$group" 2>/dev/null || skip "no cgroup may be made here"
trap 'rmdir "$group"' EXIT
{ echo 67108864 >"$group/$limit"; } 2>/dev/null && grep -q '^oom_kill ' "$group/$counter" ||
    skip "no limit may be set here"
st=0
sh -c 'echo $$ >"$1/cgroup.procs"; exec "$2" --report r.json --no-python sh -c "exec tail /dev/zero"' sh "$group" "$CCRUN" \
    >out 2>err || st=$?
same 137 $st
matches err 'evidence  : out of memory: killed by the kernel, limit 64 MB(, peak [0-9]+ MB)?$'
same out_of_memory "$(json first_failure.evidence.kind r.json)"
EOF

done_testing
