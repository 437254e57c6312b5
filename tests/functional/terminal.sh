#!/bin/sh
# ccrun at a terminal: who reads it, whom ^C and ^Z reach, and who has it afterwards.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
shell() { # shell STEP...: an interactive shell on a terminal; its prompt is 'READY> ', and ccrun is on its PATH
    PATH=${CCRUN%/*}:$PATH PS1='READY> ' expect_status "${want:-0}" "$SUPPORT/onpty" 'wait=READY> ' "$@" -- bash --norc --noprofile -i
}
EOF

it 'one worker reads from the terminal, and the shell has it again afterwards' <<'EOF'
shell "send=ccrun --no-python sh -c 'echo ask; read x; echo got \$x'\\n" 'wait=ask' 'send=hello\n' 'wait=got hello' \
    'wait=READY> ' 'send=echo status $?\n' 'wait=status 0' 'wait=READY> ' 'send=exit\n'
EOF

it 'it is in the foreground, in a process group of its own' <<'EOF'
expect_status 0 "$SUPPORT/onpty" -- "$CCRUN" --no-python sh -c 'test -t 0 && test -t 1 && test -t 2 && exec "$SUPPORT/probe"'
has out foreground=1 own_pgrp=1
EOF

it 'the Python debugger works (C72)' <<'EOF'
echo 'breakpoint(); print("the end")' >debug.py
PYTHON_EXEC=$(command -v python3) shell "send=ccrun debug.py\\n" 'wait=(Pdb)' 'send=p 6 * 7\n' 'wait=42' 'wait=(Pdb)' 'send=c\n' \
    'wait=READY> ' 'send=exit\n'
EOF

it '^C ends one worker and several, with status 130' <<'EOF'
for n in 1 2; do
    shell "send=ccrun --nproc $n --no-python sh -c 'echo up\$RANK; exec sleep 1000'\\n" "wait=up$((n - 1))" 'send=\x03' \
        'wait=READY> ' 'send=echo status $?\n' 'wait=status 130' 'send=exit\n'
done
EOF

it 'a second ^C kills workers that ignore the first' <<'EOF'
shell "send=ccrun --nproc 2 --no-python sh -c 'trap \"\" INT; echo up\$RANK; sleep 1000; sleep 1000'\\n" 'wait=up1' 'send=\x03' \
    'wait=SIGINT: stopping 2 workers' pause=100 'send=\x03' 'wait=second SIGINT: killing' 'wait=READY> ' 'send=echo status $?\n' \
    'wait=status 130' 'send=exit\n'
EOF

it '^C goes to the one worker that has the terminal, once, and its end is a stop whatever its status' <<'EOF'
for code in 0 1 7; do
    expect_status 130 "$SUPPORT/onpty" 'wait=up' pause=200 'send=\x03' 'wait=got SIGINT' 'wait=saved' -- \
        "$CCRUN" --max-restarts 2 --no-python "$SUPPORT/heed" INT=$code@300
    same 1 "$(grep -c 'got SIGINT' out)"
    lacks out FAILED restart
done
EOF

it 'a second ^C kills that worker too' <<'EOF'
expect_status 130 "$SUPPORT/onpty" 'wait=up' pause=200 'send=\x03' 'wait=got SIGINT' pause=100 'send=\x03' 'wait=second SIGINT: killing 1 worker' \
    -- "$CCRUN" --no-python "$SUPPORT/heed"
EOF

it 'but a debugger may have ^C for itself, and its session goes on' <<'EOF'
echo 'import time
breakpoint()
while True: time.sleep(0.1)' >s.py
expect_status 130 "$SUPPORT/onpty" 'wait=(Pdb)' 'send=time.sleep(50)\n' pause=300 'send=\x03' 'wait=(Pdb)' 'send=print(6 * 7)\n' 'wait=42' \
    pause=2000 'send=c\n' pause=300 'send=\x03' 'wait=Ctrl-C twice within 2 s kills the job' 'send=q\n' -- "$CCRUN" s.py
EOF

# The workers fork nothing: a shell that waits for a child of its vfork() cannot be stopped, ccrun or not.
it '^Z stops the job with its workers, and fg goes on' <<'EOF'
for n in 1 2; do
    shell "send=ccrun --nproc $n --no-python sh -c 'echo up\$RANK; exec sleep 3'\\n" "wait=up$((n - 1))" 'send=\x1a' \
        'wait=Stopped' 'wait=READY> ' 'send=jobs\n' 'wait=Stopped' 'wait=READY> ' 'send=fg\n' 'wait=sleep 3' \
        'wait=READY> ' 'send=echo status $?\n' 'wait=status 0' 'send=exit\n'
done
EOF

it 'in the background a worker gets no terminal, and the job runs' <<'EOF'
shell "send=ccrun --no-python sh -c 'read x || echo end of file' &\\n" 'wait=end of file' 'send=wait; exit\n'
EOF

it 'of several workers none has the terminal, unless it is asked for' <<'EOF'
shell "send=ccrun --nproc 2 --no-python sh -c 'read x; echo got \$RANK \$x'\\n" 'wait=got' 'wait=got' 'wait=READY> ' 'send=exit\n'
shell "send=ccrun --nproc 2 --stdin 1 --no-python sh -c 'read x; echo got \$RANK \$x'\\n" 'wait=got 0' 'send=hello\n' \
    'wait=got 1 hello' 'wait=READY> ' 'send=exit\n'
EOF

it 'a terminal that goes away stops the job, alone there or below a shell' <<'EOF'
for n in 1 2; do
    for shell in '' 'bash --norc --noprofile -ic'; do
        rm -f got*
        worker='"$SUPPORT/heed" HUP=0 >got$RANK & exec >/dev/null 2>&1; trap : HUP; wait; wait'
        if [ -z "$shell" ]; then
            bg pty "$SUPPORT/onpty" wait=never -- "$CCRUN" --nproc "$n" --no-python sh -c "$worker"
        else
            WORKER=$worker bg pty "$SUPPORT/onpty" wait=never -- $shell '"$CCRUN" --nproc '"$n"' --no-python sh -c "$WORKER"; true'
        fi
        wait_for '[ "$(cat got? 2>/dev/null | grep -c ^up)" -eq '"$n"' ]'
        kill -9 $pid
        wait $pid || true
        wait_for '[ "$(cat got? | grep -c "got SIGHUP")" -eq '"$n"' ]'
        wait_for "! alive $(sed -n 's/^up \([0-9]*\) .*/\1/p' got? | paste -sd' ')" 3
    done
done
EOF
done_testing
