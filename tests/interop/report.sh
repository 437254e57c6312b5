#!/bin/sh
# The failure report with real workers under torch.distributed.elastic's @record.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

words <<'EOF'
job() { # job 'how the worker fails' [option...]: two workers; output in out and err, status in $st
    job_how=$1; shift
    st=0
    PYTHON_EXEC=$PYTHON "$CCRUN" --nproc-per-node 2 --report r.json "$@" "$HERE/report.py" "$job_how" >out 2>err || st=$?
}
json() { "$SUPPORT/jsonget" "$1" "${2:-r.json}"; }
EOF

it 'a worker that raises is told by its exception, and its file is kept in the log directory' <<'EOF'
before=$(date +%s)
job raise --log-dir logs
same 1 $st
has err 'rank 1 (local_rank: 1' '  traceback : ValueError: boom \x1b[31m' '(report.py:' ' in fail)' 'rank 0: SIGTERM by ccrun'
file=$(json first_failure.error_file)
case $file in */attempt_0/1/error.json) ;; *) fail "$file" ;; esac
stamp=$(sed -n 's/.*"timestamp": "\([0-9]*\)".*/\1/p' "$file")
same "$(date -u -d "@$stamp" +%Y-%m-%dT%H:%M)" "$(json first_failure.time | cut -c1-16)"
[ "$stamp" -ge "$before" ]
matches r.json '"traceback": "Traceback .most recent call last.'
EOF

it 'sys.exit leaves no error file, and its code is ours' <<'EOF'
job exit
same 138 $st
has err '  exitcode  : 138 (pid: ' '  error_file: <N/A>'
same null "$(json first_failure.message)"
EOF

it 'a segmentation fault shows what faulthandler printed' <<'EOF'
job segfault
same 139 $st
has err 'was killed by SIGSEGV' '  exitcode  : -11 ' 'Fatal Python error: Segmentation fault' 'report.py", line'
same crash "$(json first_failure.evidence.kind)"
EOF

it 'a parent gets the message, the timestamp and the exit code' <<'EOF'
export TORCHELASTIC_ERROR_FILE="$PWD/parent.json"
job raise
same 1 "$(json message.errorCode parent.json)"
matches parent.json '"message": ?"ValueError: boom'
matches parent.json '"timestamp": ?"[0-9]+"'
EOF

it 'the one that raised first is the cause, though another was gone first' <<'EOF'
job chain --shutdown-timeout 5
same 1 $st
has err 'rank 1 (local_rank: 1' "  traceback : KeyError: 'the cause'" 'rank 0: exit code 5'
EOF

it 'event lines are those of torchrun' <<'EOF'
st=0
PYTHON_EXEC=$PYTHON "$CCRUN" --event-log-handler console --nproc-per-node 2 "$HERE/report.py" raise gently >out 2>err || st=$?
same 1 $st
same 'RENDEZVOUS ASSIGN_WORKER_RANKS START START TERMINATED FAILED SUCCEEDED' \
    "$("$SUPPORT/jsonget" metadata.state <err | paste -sd' ')"
same 'AGENT AGENT WORKER WORKER WORKER WORKER AGENT' "$("$SUPPORT/jsonget" source <err | paste -sd' ')"
grep FAILED err | "$SUPPORT/jsonget" metadata.raw_error >raw
matches raw '^{"message": {"message": "ValueError: boom'
EOF

done_testing
