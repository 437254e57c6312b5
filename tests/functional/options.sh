#!/bin/sh
# The command line: what it refuses and how, what it warns of, and where each value comes from.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# refuses 'sentence' OPTION...: status 2, the sentence, and no worker was started.
refuses() {
    refuses_what=$1; shift
    expect_status 2 "$CCRUN" "$@" --no-python touch started
    has err "ccrun: error: $refuses_what"
    [ ! -e started ] || fail "a worker was started"
    empty out
}
EOF

it 'refuses what no parser understands, in the words of torchrun (W2)' <<'EOF'
refuses "argument --max-restarts/--max_restarts: invalid int value: 'x'" --max-restarts x
refuses "argument --monitor-interval/--monitor_interval: invalid float value: 'x'" --monitor_interval=x
refuses "argument --start-method/--start_method: invalid choice: 'bad' (choose from 'spawn', 'fork', 'forkserver')" \
    --start-method bad
refuses "argument --standalone: ignored explicit argument '1'" --standalone=1
refuses "argument --rdzv-conf/--rdzv_conf: expected one argument" --rdzv-conf -x
refuses "unrecognized arguments: --foo" --foo
same 'usage: ccrun [options] training_script [training_script_args ...]' "$(head -n 1 err)"
EOF

it 'says that an abbreviation is ambiguous, with all that it could mean' <<'EOF'
refuses "ambiguous option: --master=h could match --master-addr, --master_addr, --master-port, --master_port" --master=h
EOF

it 'refuses a line without a script' <<'EOF'
expect_status 2 "$CCRUN" --standalone
has err 'ccrun: error: the following arguments are required: training_script, training_script_args'
EOF

it 'refuses values that make no sense, with one sentence (W3)' <<'EOF'
refuses 'nnodes=1:2:3 is not in "MIN:MAX" format' --nnodes 1:2:3
refuses 'min_nodes must be > 0 and <= max_nodes, got min_nodes=0, max_nodes=0' --nnodes 0
refuses '--nnodes 2 needs 2 nodes, and --standalone is for one' --nnodes 2 --standalone
refuses 'max_restarts must be >= 0' --max-restarts -1
refuses "argument --max-restarts/--max_restarts: invalid window (N/WINDOW, such as 3/1h: a number with s, m, h or d after it): '3/x'" \
    --max-restarts 3/x
refuses "--no-restart-codes: '300' is no exit status (1 to 255), range (3-5) or signal (SIGSEGV)" --no-restart-codes 300
refuses "--preempt-signal TERM: --signals-to-handle has it too" --preempt-signal TERM
refuses "--restart-backoff: 'x' is not MIN:MAX" --restart-backoff x
refuses "--subnet: 'eth0' is not NETWORK/BITS" --subnet eth0
refuses 'shutdown_timeout must be non-negative, got -1' --shutdown-timeout -1
refuses '--redirects: 4 does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>' -r 4
refuses '--tee: 0:1, does not match' -t 0:1,
refuses '--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2' \
    --local-ranks-filter x
refuses "Could not find entrypoint under 'torchrun.logs_specs[x]' key" --logs-specs x
refuses 'The rendezvous backend name must be a non-empty string.' --rdzv-backend=
refuses "The rendezvous backend 'foo' is not registered: ccrun has static, c10d" --rdzv-backend foo
refuses 'port is missing in endpoint: h. Try to specify --master-port' --rdzv-endpoint h
refuses "The port number of the rendezvous endpoint 'h:x' must be an integer between 0 and 65536." --rdzv-endpoint h:x
refuses 'The last_call timeout (0:00:00) must be positive.' --rdzv-conf last_call_timeout=0
refuses "The rendezvous configuration option 'a' must have a value specified." --rdzv-conf a
refuses '--signals-to-handle: SIGKILL cannot be handled' --signals-to-handle SIGKILL
refuses "--event-log-handler: 'x' is neither null nor console" --event-log-handler x
EOF

it 'names at once what several nodes need to meet (C11)' <<'EOF'
refuses '--nnodes 2 needs --rdzv-endpoint HOST[:PORT] (or CCRUN_RDZV_ENDPOINT or PET_RDZV_ENDPOINT)' --nnodes 2
refuses '--nnodes 1:2 needs --rdzv-endpoint' --nnodes 1:2 --rdzv-backend c10d
refuses '--nnodes 2 needs --master-addr ADDR (or CCRUN_MASTER_ADDR or PET_MASTER_ADDR)' --nnodes 2 --node-rank 1
refuses "port 0 of 'h:0' is any free one, which the other nodes cannot know: name one" --nnodes 2 --rdzv-endpoint h:0
expect_status 2 env PET_NNODES=2 PET_NODE_RANK=0 "$CCRUN" --no-python touch started
has err '--nnodes 2 needs --master-addr'
[ ! -e started ]
EOF

it 'shows what is known before the nodes have met, and no more' <<'EOF'
expect_status 0 "$CCRUN" --nnodes 2:4 --spares 1 --rdzv-endpoint '[fd00::1]:7' --dry-run --print-env --no-python true
has out 'job       named by its host' ': any free rank of 2 to 4 and 1 spare, 1 worker' \
    'meet      [fd00::1]:7 (c10d), hosted by whoever has that address' '  WORLD_SIZE=<known when the nodes have met>' \
    '# MASTER_PORT is known when the nodes have met' TORCHELASTIC_RUN_ID=none
expect_status 0 env PET_MASTER_ADDR=h PET_MASTER_PORT=9 PET_NODE_RANK=1 PET_NNODES=2 PET_RDZV_ID=x "$CCRUN" --dry-run --show-config \
    --no-python true
has out 'rdzv-backend = static (several nodes)' 'job       x' ': rank 1 of 2, 1 worker' 'meet      h:9 (static)'
EOF

it 'refuses --no-python with --module' <<'EOF'
refuses "Don't use both the '--no-python' flag and the '--module' flag at the same time." -m
expect_status 2 env PET_NO_PYTHON=1 PET_MODULE=1 "$CCRUN" true
has err "Don't use both the '--no-python' flag and the '--module' flag"
expect_status 0 env PET_NO_PYTHON=1 PET_MODULE=0 "$CCRUN" true
EOF

it 'names the variable that holds a bad value' <<'EOF'
expect_status 2 env PET_MAX_RESTARTS=abc "$CCRUN" --no-python true
has err "argument --max-restarts/--max_restarts: invalid int value: 'abc' (from PET_MAX_RESTARTS)"
expect_status 2 env PET_MODULE=yes "$CCRUN" true
has err "PET_MODULE: invalid literal for int() with base 10: 'yes'"
EOF

it 'prints bad values so that they cannot harm a terminal' <<'EOF'
expect_status 2 "$CCRUN" --max-restarts "$(printf 'a\033[31m\nb')" x.py
has err "invalid int value: 'a\\x1b[31m\\nb'"
EOF

it 'passes everything after the script through (C30, B13)' <<'EOF'
expect_status 0 "$CCRUN" --no-python printf '[%s]' --mo 0.9 --log x -m y --nnodes 7 -- --
same '[--mo][0.9][--log][x][-m][y][--nnodes][7][--][--]' "$(cat out)"
expect_status 0 "$CCRUN" --no-python -- printf '[%s]' -- -h
same '[--][-h]' "$(cat out)"
EOF

it 'understands both spellings, abbreviations and --nproc' <<'EOF'
for option in --nproc=2 --nproc_per_node=2 --nproc-per-node=2 --nproc-p=2; do
    expect_status 0 "$CCRUN" "$option" --no-python echo x
    same 2 "$(grep -c x out)"
done
EOF

it 'takes everything from PET_ variables' <<'EOF'
expect_status 0 env PET_NNODES=1 PET_NPROC_PER_NODE=4 PET_RDZV_ID=job PET_MONITOR_INTERVAL=1 PET_START_METHOD=spawn \
    PET_NO_PYTHON=1 "$CCRUN" sh -c 'echo "$TORCHELASTIC_RUN_ID"'
same 4 "$(grep -cx job out)"
EOF

it 'tells who chooses among hosts, or wants more of them, that they are not named' <<'EOF'
expect_status 0 "$CCRUN" --include node1 --no-python true
has err 'warning: --include chooses among the hosts of --hosts or --hostfile, which are not given'
expect_status 0 env CCRUN_EXCLUDE=node1 "$CCRUN" --no-python true
same 0 "$(wc -l <err)"
refuses '--nnodes 2 needs more nodes than the one that --hosts names' --hosts localhost --nnodes 2
EOF

it 'tells who sets up a check or an ssh that is not asked for, but not for a variable of every day' <<'EOF'
expect_status 0 "$CCRUN" --preflight-args=--pairs --preflight-policy warn --ssh-args=-v --ssh-fanout 2 --no-python true
has err 'warning: --preflight-args does nothing without --preflight' 'warning: --preflight-policy does nothing without --preflight' \
    'warning: --ssh-args is for the hosts of --hosts or --hostfile, which are not given' 'warning: --ssh-fanout is for the hosts'
same 4 "$(wc -l <err)"
refuses '--preflight-timeout does nothing without --preflight' --strict --preflight-timeout 9
expect_status 0 env CCRUN_PREFLIGHT_ARGS=--pairs CCRUN_SSH_ARGS=-v "$CCRUN" --no-python true
empty err
expect_status 0 "$CCRUN" --preflight --preflight-timeout 9 --dry-run --no-python true
empty err
EOF

it 'names an unknown key of --rdzv-conf once, with a guess, and is strict about it if asked (C34)' <<'EOF'
expect_status 0 "$CCRUN" --rdzv-conf "'join_timout=5,timeout=5'" --no-python true
has err "--rdzv-conf: unknown key 'join_timout' is ignored; did you mean join_timeout?"
same 1 "$(wc -l <err)"
refuses "--rdzv-conf: unknown key 'join_timout' is ignored; did you mean join_timeout?" --strict --rdzv-conf join_timout=5
EOF

it 'names an unknown variable once, with a guess, and is strict about it if asked (C34)' <<'EOF'
expect_status 0 env CCRUN_LOGDIR=x "$CCRUN" --no-python true
has err 'unknown variable CCRUN_LOGDIR is ignored; did you mean CCRUN_LOG_DIR?'
same 1 "$(wc -l <err)"
expect_status 2 env CCRUN_LOGDIR=x CCRUN_STRICT=1 "$CCRUN" --no-python touch started
[ ! -e started ]
EOF

it 'warns of contradictions once, and refuses them with --strict' <<'EOF'
expect_status 0 "$CCRUN" --standalone --rdzv-endpoint h:1 --rdzv-id x --no-python true
has err '--standalone: --rdzv-endpoint, --rdzv-id are ignored'
same 1 "$(wc -l <err)"
refuses '--standalone: --rdzv-endpoint is ignored' --strict --standalone --rdzv-endpoint h:1
EOF

it 'warns of output that is asked of a worker that is not there' <<'EOF'
expect_status 0 "$CCRUN" --nproc 2 --local-ranks-filter 7 --no-python echo hi
has err 'warning: --local-ranks-filter 7 is out of range: the local ranks of 2 workers are 0 to 1'
same 1 "$(wc -l <err)"
refuses '--redirects 5:1 is out of range' --strict --nproc 2 -r 0:1,5:1 --log-dir logs
expect_status 0 "$CCRUN" --hosts h1:2,h2:4 --local-ranks-filter 3 --dry-run x.py
empty err
expect_status 2 "$CCRUN" --hosts h1:2,h2:4 -t 4:3 --strict --dry-run x.py
has err '--tee 4:3 is out of range: the local ranks of 4 workers are 0 to 3'
expect_status 2 "$CCRUN" --hosts h1:2,h2:4 --nproc 3 -t 3:3 --strict --dry-run x.py
has err '--tee 3:3 is out of range: the local ranks of 3 workers are 0 to 2'
EOF

it 'keeps a given --rdzv-id on one node' <<'EOF'
expect_status 0 "$CCRUN" --rdzv-id mine --no-python sh -c 'echo "$TORCHELASTIC_RUN_ID"'
same mine "$(cat out)"
EOF

it 'shows every timeout, its variable and where its value comes from (C70)' <<'EOF'
expect_status 0 env CCRUN_DRAIN_TIMEOUT=1.5 PET_SHUTDOWN_TIMEOUT=9 "$CCRUN" --unkillable-timeout 7 --show-config
has out 'drain-timeout = 1.5 (CCRUN_DRAIN_TIMEOUT)' 'shutdown-timeout = 9 (PET_SHUTDOWN_TIMEOUT)' \
    'unkillable-timeout = 7 (command line)' 'role = default (default)' 'rdzv-backend = c10d (one node)'
expect_status 0 "$CCRUN" --help
for option in $(grep -oE -- '--[a-z-]*timeout' out | sort -u); do
    name=CCRUN_$(echo "${option#--}" | tr 'a-z-' 'A-Z_')
    expect_status 0 env "$name=8" "$CCRUN" --show-config
    has out "${option#--} = 8 ($name)"
done
EOF

it 'shows what the scheduler decided' <<'EOF'
expect_status 0 env SLURM_JOB_ID=1 SLURM_GPUS_ON_NODE=3 "$CCRUN" --show-config
has out 'nproc-per-node = 3 (SLURM_GPUS_ON_NODE)'
expect_status 0 env SLURM_JOB_ID=1 SLURM_GPUS_ON_NODE=3 "$CCRUN" --nproc 2 --show-config
has out 'nproc-per-node = 2 (command line)'
EOF

it 'does not need a scheduler to say that one node is one node' <<'EOF'
step='SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_NODEID=0 SLURM_STEP_NODELIST=n[1-'
expect_status 0 env $step "$CCRUN" --nnodes 1 --no-python true
expect_status 2 env $step "$CCRUN" --no-python touch started
has err 'SLURM_STEP_NODELIST'
[ ! -e started ]
EOF

it 'has help that fits 100 columns, on standard output' <<'EOF'
expect_status 0 "$CCRUN" --help
has out 'usage: ccrun [options] training_script [training_script_args ...]' '--nproc-per-node'
same '' "$(cut -c101- out | tr -d '\n')"
empty err
expect_status 0 "$CCRUN" -mh
EOF

it 'prints the environment of each worker, as a shell takes it' <<'EOF'
expect_status 0 env -i PATH="$PATH" "$CCRUN" --print-env --nproc 2 --env 'A=x  y' --no-python true
same 2 "$(grep -c '^# rank' out)"
has out '# MASTER_PORT is any free one' '# TORCHELASTIC_ERROR_FILE is chosen at the start'
same '1 2 x  y' "$(set -a; . ./out; echo "$RANK $WORLD_SIZE $A")"
expect_status 0 "$CCRUN" --print-env --master-port 29517 --no-python true
has out MASTER_PORT=29517
EOF

it 'gives the workers the variables of a file, byte for byte (C74)' <<'EOF'
nl='
'
tricky="it's${nl}two  lines \\ \"quoted\" \$HOME $(printf '\001\377')"
env -i A="$tricky" B= "C=#no comment" env -0 >vars
expect_status 0 env A=old KEPT=1 "$CCRUN" --env-file vars --env B=late --no-python sh -c 'printf "%s" "$A" >a; echo "<$B>$C$KEPT"'
same "$tricky" "$(cat a)"
same '<late>#no comment1' "$(cat out)"
printf '# a comment\nexport A=  plain #text \nB='\''x\ny'\''\nC="a\\"b"\n' >lines
expect_status 0 "$CCRUN" --env-file lines --no-python sh -c 'printf "[%s]" "$A" "$B" "$C"'
same "[  plain #text ][x${nl}y][a\"b]" "$(cat out)"
A=$tricky "$CCRUN" --print-env --no-python true >again
expect_status 0 "$CCRUN" --env-file again --no-python sh -c 'printf "%s" "$A" >a'
same "$tricky" "$(cat a)"
EOF

it 'names the file, the line and what is wrong with it' <<'EOF'
printf 'A=1\nB\n' >vars
refuses "vars:2: 'B' is not NAME=VALUE" --env-file vars
printf 'A="1\n' >vars
refuses 'vars:1: the quote that begins here has no end' --env-file vars
refuses "--env-file: 'nowhere' cannot be read: No such file or directory" --env-file nowhere
refuses "--env-file: '.' cannot be read: Is a directory" --env-file .
EOF

it 'hides what a scheduler says about ranks, if asked (C74)' <<'EOF'
show='echo "$SLURM_PROCID,$SLURM_JOB_ID,$SLURM_NTASKS,$OMPI_COMM_WORLD_RANK,$PMIX_RANK,$RANK"'
vars='SLURM_PROCID=5 SLURM_JOB_ID=7 SLURM_NTASKS=9 OMPI_COMM_WORLD_RANK=5 PMIX_RANK=5'
expect_status 0 env $vars "$CCRUN" --nproc 1 --no-python sh -c "$show"
same 5,7,9,5,5,0 "$(cat out)"
expect_status 0 env $vars "$CCRUN" --nproc 1 --clean-env slurm --no-python sh -c "$show"
same ,7,,5,5,0 "$(cat out)"
expect_status 0 env $vars CCRUN_CLEAN_ENV=slurm,mpi "$CCRUN" --nproc 1 --no-python sh -c "$show"
same ,7,,,,0 "$(cat out)"
refuses "--clean-env: 'lsf' is neither slurm nor mpi" --clean-env slurm,lsf
EOF

it 'tells the libraries of the workers which interface was chosen, unless they know better' <<'EOF'
show='echo "$NCCL_SOCKET_IFNAME,$GLOO_SOCKET_IFNAME"'
expect_status 0 env -u NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME=eth9 "$CCRUN" --iface lo --no-python sh -c "$show"
same lo,eth9 "$(cat out)"
expect_status 0 env -u NCCL_SOCKET_IFNAME -u GLOO_SOCKET_IFNAME "$CCRUN" --no-python sh -c "$show"
same , "$(cat out)"
EOF

it 'wants a secret that is one' <<'EOF'
: >token
refuses "--job-token-file: 'token' is empty, and an empty secret is none" --job-token-file token
refuses "--job-token-file: 'nowhere' cannot be read: No such file or directory" --job-token-file nowhere
echo secret >token
chmod 644 token
refuses "--job-token-file: everybody on this machine can read 'token' (chmod 600)" --strict --job-token-file token
chmod 600 token
expect_status 0 "$CCRUN" --strict --job-token-file token --no-python true
EOF

it 'completes for bash' <<'EOF'
command -v bash >/dev/null || skip 'no bash'
"$CCRUN" --dump=bash >complete
cat >try <<'X'
. ./complete
COMP_WORDS=(ccrun --nproc) COMP_CWORD=1
_ccrun
echo "${COMPREPLY[@]}"
COMP_WORDS=(ccrun --cr k) COMP_CWORD=2
_ccrun
echo "${COMPREPLY[@]}"
X
same '--nproc-per-node,keep,' "$(bash try | tr '\n' ,)"
bash -c '. ./complete; complete -p ccrun' >out
has out '-F _ccrun' ccrun
EOF

it 'completes in zsh' <<'EOF'
"$CCRUN" --dump=zsh >_ccrun
has _ccrun '#compdef ccrun' "--nproc-per-node=[" ":value:(auto keep)"
command -v zsh >/dev/null || skip 'no zsh'
cat >.zshrc <<'X'
PS1='> '
fpath=("$ZDOTDIR" $fpath)
autoload -Uz compinit
compinit -u -D
ccrun() { print -r -- "said: ${(j:|:)@}" }
X
touch a-script.py
ZDOTDIR=$PWD TERM=dumb expect_status 0 "$SUPPORT/onpty" 'wait=> ' 'send=ccrun --start-me\t' wait=thod 'send=sp\t' 'wait=spawn' \
    'send=a-scr\t' 'wait=ipt.py' 'send=--start-me\n' 'wait=said:' 'send=exit\n' -- zsh -d -i
has out 'said: --start-method=spawn|a-script.py|--start-me'
EOF

it 'completes in fish' <<'EOF'
"$CCRUN" --dump=fish >ccrun.fish
has ccrun.fish 'complete -c ccrun -l nproc-per-node -r' "-f -a 'auto keep'"
command -v fish >/dev/null || skip 'no fish'
fish() { HOME=$PWD command fish --no-config -c "source ccrun.fish; complete -C '$1'" | cut -f1; }
same --nproc-per-node "$(fish 'ccrun --nproc-p')"
same 'fork forkserver spawn' "$(fish 'ccrun --start-method ' | sort | paste -sd' ')"
touch a-script.py
same a-script.py "$(fish 'ccrun --verbose a-scr')"
EOF

it 'writes OPTIONS of its manual page, which has no fault' <<'EOF'
"$CCRUN" --dump=man >options
sed -e '/@OPTIONS@/{r options' -e 'd' -e '}' "$HERE/../../man/ccrun.1" >ccrun.1
has ccrun.1 'Fl -unkillable-timeout Ar SECONDS' '.Ev CCRUN_LOG_DIR , PET_LOG_DIR .'
command -v mandoc >/dev/null || skip 'the page was made, but there is no mandoc to look at it'
mandoc -Tlint -Wwarning ccrun.1
EOF
it 'shows the whole plan and starts nothing' <<'EOF'
expect_status 0 "$CCRUN" --dry-run --nproc 2 --max-restarts 3 --master-port 29517 --env 'A=x y' --virtual-local-rank \
    --no-python sh -c 'touch started' "it's"
[ ! -e started ]
has out 'rank 0 of 1, 2 workers (--nproc-per-node 2)' 'store     127.0.0.1 port 29517' 'restarts  3' \
    "sh -c 'touch started' 'it'\\''s'" "  A='x y'" '  MASTER_PORT=29517' '  WORLD_SIZE=2' '  TORCHELASTIC_MAX_RESTARTS=3' \
    '  RANK=1 LOCAL_RANK=0 ROLE_RANK=1 CUDA_VISIBLE_DEVICES=1'
lacks out "HOME="
EOF

it 'prints the hosts of a node list' <<'EOF'
expect_status 0 "$CCRUN" --expand-hosts 'n[08-10]r[1-2],m3'
same 'n08r1 n08r2 n09r1 n09r2 n10r1 n10r2 m3 ' "$(tr '\n' ' ' <out)"
empty err
expect_status 0 "$CCRUN" --expand-hosts ''
empty out
expect_status 2 "$CCRUN" --expand-hosts 'm3,n[1-2'
empty out
has err "ccrun: error: --expand-hosts 'm3,n[1-2': position 5: this '[' is not closed"
expect_status 0 env CCRUN_EXPAND_HOSTS=n1 "$CCRUN" --no-python true
has err 'unknown variable CCRUN_EXPAND_HOSTS is ignored'
EOF

it 'A40: the exit barrier is 30 s, else what the variable says, else what the option says' <<'EOF'
shows() { # WANTED ENVIRONMENT [option...]
    shows_want=$1 shows_env=$2; shift 2
    expect_status 0 env "$shows_env" "$CCRUN" --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:1 "$@" --show-config --no-python true
    has out "exit-barrier-timeout = $shows_want ("
}
shows 30 A=
shows 77 TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT=77
shows 5 TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT=77 --exit-barrier-timeout 5
shows 0 A= --exit-barrier-timeout 0
expect_status 2 "$CCRUN" --exit-barrier-timeout -1 --no-python true
has err --exit-barrier-timeout "'-1'"
EOF

done_testing
