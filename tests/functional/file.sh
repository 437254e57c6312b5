#!/bin/sh
# A file that all nodes see says who hosts the job: C36, stale files, and a host that goes.
. "$(dirname "$0")/lib.sh"
words <"$LIB/nodes_case.sh"
words <<'X'
in_file() { # NODES [option...]
    in_file_nodes=$1; shift
    FILE=$T/meet
    nodes "$in_file_nodes" --rdzv-endpoint "file://$FILE" --rdzv-id files "$@"
}
cut_off() { # AGENT...: kill them like a power cut would, all in one moment: nobody takes over in between
    cut_pids= cut_agents=
    for cut_name in "$@"; do
        eval "cut_agent=\$$cut_name"
        cut_agents="$cut_agents $cut_agent $(pgrep -P "$cut_agent")"
        cut_pids="$cut_pids $(pids_of "$cut_name")"
    done
    kill -9 $cut_agents || true # one may have been quick enough to end another
    wait_for "! alive $cut_agents $cut_pids" 2
}
clean() { same '' "$(find "$T" -name 'meet*')"; }
X
limit 60

it 'two agents meet at a file, which is gone with the job' <<'X'
in_file 2
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
has "$FILE" 'ccrun 1 '
all_go
well a b
same 1 "$(cat a.err b.err | grep -c 'this node hosts the job')"
clean
X

it 'a node that lacks the program says so to whoever comes, also when it was elected' <<'X'
WORKER=./work
in_file 2 --exit-barrier-timeout 10
agent a
hosts a
printf '#!/bin/sh\n' >work
chmod +x work
agent b
ends "$a" 127
ends "$b" 127
matches b.err "ccrun: the job has ended: .*: './work'"
clean
X

it 'the file that a killed job has left holds up nobody (C36)' <<'X'
in_file 2 --rdzv-conf last_call_timeout=30
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
cut_off a b
has "$FILE" 'ccrun 1 '
from=$(now_ms)
agent c
agent d
wait_for 'grep -hE "is stale, owner pid [0-9]+ on .* is gone; this node takes over" c.err d.err' 5
wait_for '[ "$(ups "world=2 " c d)" -eq 2 ]'
in_time "$from" 6000
all_go
well c d
clean
X

it 'all agents are killed, and as many are started at once: the dead keep none of them out' <<'X'
in_file 8 --max-rejoins 8
for i in $(count 8); do agent "n$i"; done
wait_for '[ "$(cat n?.out | grep -c "^up .*nodes=8 ")" -eq 8 ]' 20
cut_off $(for i in $(count 8); do echo "n$i"; done)
for i in $(count 8); do agent "m$i"; done
wait_for '[ "$(cat m?.out | grep -c "^up .*nodes=8 ")" -eq 8 ]' 20
all_go
well $(for i in $(count 8); do echo "m$i"; done)
clean
X

it 'the host is killed: the others go on in a new round' <<'X'
in_file 2:3 --rdzv-conf last_call_timeout=30
agent a
hosts a
agent b
agent c
sees a '0/3:0'
wait_for '[ "$(ups "nodes=3" b c)" -eq 2 ]'
from=$(now_ms)
cut_off a
wait_for '[ "$(ups "nodes=2 .*count=0" b c)" -eq 2 ]' 20
in_time "$from" 8000
all_go
well b c
clean
X

it 'a host on another machine that has not touched its file for long is taken for gone' <<'X'
in_file 2
echo 'ccrun 1 127.0.0.1 9 abc elsewhere 00000000-0000-0000-0000-000000000000 1 4711 5' >"$FILE"
touch -d '-60 seconds' "$FILE"
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
cat a.err b.err >err
matches err "is stale: its owner, pid 4711 on elsewhere, has not touched it for [0-9]+ s; this node takes over"
all_go
well a b
X

it 'a host that seems to live and does not answer is named again and again, and the wait has an end' <<'X'
in_file 2 --rdzv-conf join_timeout=7
port=$("$SUPPORT/freeport")
echo "ccrun 1 127.0.0.1 $port abc elsewhere 00000000-0000-0000-0000-000000000000 1 4711 5" >"$FILE"
agent a
wait_for 'grep -q "waiting for the host of the job, .*/meet: nothing listens on 127.0.0.1:$port\|waiting for the host of the job, .*/meet: .*refused" a.err'
ends $a 75
has "$FILE" 'elsewhere'
X

it 'an empty file is nobody, and what is not our file is left alone' <<'X'
in_file 2 --rdzv-conf join_timeout=2
echo 'precious data' >"$FILE"
agent a
wait_for '! alive $a'
matches a.err "'.*/meet' is not a file of ccrun's: name another, or remove it"
same 'precious data' "$(cat "$FILE")"
: >"$FILE"
agent b
agent c
wait_for '[ "$(ups "world=2 " b c)" -eq 2 ]'
all_go
well b c
X

it 'of ten that start at once one hosts' <<'X'
in_file 10
for x in a b c d e f g h i j; do agent $x; done
wait_for '[ "$(ups "world=10 " a b c d e f g h i j)" -eq 10 ]' 30
same 1 "$(cat ?.err | grep -c 'this node hosts the job')"
all_go
well a b c d e f g h i j
clean
X

it 'a host whose file is removed or replaced by hand stops hosting' <<'X'
in_file 2
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
rm "$FILE"
wait_for 'cat a.err b.err | grep -q "this node does not host the job any more: "'
wait_for '[ "$(ups "world=2 .*count=0" a b)" -eq 4 ]' 20
all_go
well a b
clean
X

# Who opens a pipe that nobody writes to waits, as on a server of files that is gone.
it 'a file system that hangs is named, and holds up no signal, nor the end of the wait' <<'X'
in_file 2 --rdzv-conf join_timeout=6
mkfifo "$FILE"
agent a
agent b
wait_for 'grep -q "the file system of .*/meet. has not answered for [2-9] s" b.err'
from=$(now_ms)
kill -TERM $b
ends $b 143
in_time "$from" 3000
ends $a 75
matches a.err 'waiting for the host of the job, .*/meet: the file system of .* has not answered for [2-9] s'
matches a.err 'no host of the job at .*/meet in 6 s: the file system of .* has not answered for [4-6] s'
X

it 'a file system that answers again is used' <<'X'
in_file 2
mkfifo "$FILE"
agent a
agent b
wait_for '[ "$(grep -l "has not answered" a.err b.err | wc -l)" -eq 2 ]'
: >new
ln "$FILE" pipe
mv new "$FILE"
: >pipe
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
all_go
well a b
clean
X

it 'a host whose file system hangs stops hosting before others may take over; the workers go on' <<'X'
in_file 2
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
cp -p "$FILE" was
mkfifo pipe
ln pipe "$FILE.pipe"
from=$(now_ms)
mv "$FILE.pipe" "$FILE"
wait_for 'cat a.err b.err | grep -q "does not host the job any more: the file was not touched for [0-9]* s: the file system of "' 20
[ "$(now_ms)" -ge $((from + 7500)) ]
in_time "$from" 10000
[ "$(pids_of a)" ] && [ "$(pids_of b)" ]
mv was "$FILE"
: >pipe
wait_for '[ "$(ups "world=2 .*count=0" a b)" -eq 4 ]' 20
all_go
well a b
clean
X

it 'store_type=file names a path, which must be one' <<'X'
in_file 2
nodes 2 --rdzv-endpoint "$FILE" --rdzv-conf store_type=file --rdzv-id files
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
all_go
well a b
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-endpoint file://relative true
has err "--rdzv-endpoint 'file://relative': a file as the rendezvous is file:///PATH, which all nodes see"
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-endpoint file:///nowhere/at/all --no-python true
matches err "the folder '/nowhere/at' of the rendezvous's file: No such file"
X
done_testing
