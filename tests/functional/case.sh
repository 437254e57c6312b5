# shellcheck shell=sh disable=SC2034
# case.sh - the words that a case may use; lib.sh puts them before every case.

fail() {
    echo "$*" >&2
    exit 1
}

# not command...: it must fail.  A line that begins with ! is no test: sh -e does not look at it.
not() { ! "$@" || fail "this did not fail: $*"; }

# skip WHY: this machine cannot run the case, or the rest of it.
skip() {
    echo "$*" >"$T.skip"
    exit 0
}

# bg NAME command...: start in the background with stdin from /dev/null, output in NAME.out and NAME.err; sets $pid.
# A shell makes its background jobs ignore INT and QUIT; a user's command does not, so that is undone.
bg() {
    bg_name=$1; shift
    rm -f "$bg_name.out" "$bg_name.err" # else what an earlier one wrote there is seen until the new one has begun
    env --default-signal=INT,QUIT "$@" >"$bg_name.out" 2>"$bg_name.err" </dev/null &
    pid=$!
}

# A limit of time is one of a machine that has a CPU for us.  Where others want it too, the time in which somebody waited for
# one, as the kernel counts it, is counted as a quarter.  read_stall: in $stall, the ms of it until now.
read_stall() {
    stall=0
    read -r stall_line 2>/dev/null </proc/pressure/cpu || return 0
    stall=$((${stall_line##*total=} / 1000))
}
read_stall
case_stall=$stall

# wait_for 'condition' [SECONDS]: until the shell condition holds; the case fails when it does not in 10 s.
wait_for() {
    read_stall
    wait_stall=$stall wait_end=$(($(now_ms) + ${2:-10} * 1000))
    until eval "$1"; do
        read_stall
        [ $(($(now_ms) - (stall - wait_stall) * 3 / 4)) -lt "$wait_end" ] || {
            tail -n 20 ./*.out ./*.err 2>/dev/null || true
            fail "waited ${2:-10} s in vain for: $1"
        }
        sleep 0.02
    done
}

now_ms() { date +%s%3N; }

# alive PID...: is one of them alive?  A zombie is not.
alive() {
    for alive_pid in "$@"; do
        case $(sed 's/.*) //; s/ .*//' "/proc/$alive_pid/stat" 2>/dev/null) in
        '' | Z | X) ;;
        *) return 0 ;;
        esac
    done
    return 1
}

# ends PID STATUS [SECONDS]: the background process ends in time and with that status.
ends() {
    wait_for "! alive $1" "${3:-10}"
    ends_status=0
    wait "$1" || ends_status=$?
    [ "$ends_status" -eq "$2" ] || {
        tail -n 20 ./*.err 2>/dev/null || true
        fail "process $1 ended with status $ends_status, not $2"
    }
}

# expect_status STATUS command...: output in out and err.
expect_status() {
    expect_want=$1 expect_got=0; shift
    "$@" >out 2>err || expect_got=$?
    [ "$expect_got" -eq "$expect_want" ] || {
        head -n 20 out err
        fail "status $expect_got, not $expect_want: $*"
    }
}

# has FILE TEXT...: every text stands in the file.   lacks FILE TEXT...: none does.   matches FILE ERE
has() {
    has_file=$1; shift
    for has_text in "$@"; do
        grep -qF -e "$has_text" "$has_file" || {
            head -n 40 "$has_file"
            fail "'$has_text' is not in $has_file"
        }
    done
}
lacks() {
    has_file=$1; shift
    for has_text in "$@"; do
        ! grep -nF -e "$has_text" "$has_file" || fail "'$has_text' is in $has_file"
    done
}
matches() {
    grep -qE -e "$2" "$1" || {
        head -n 40 "$1"
        fail "nothing in $1 matches $2"
    }
}
empty() {
    [ ! -s "$1" ] || {
        head -n 20 "$1"
        fail "$1 is not empty"
    }
}
same() { # same WANTED GOT
    [ "$1" = "$2" ] || fail "wanted '$1', got '$2'"
}

# rounds N: how often to repeat something that is done N times in a full run.
rounds() {
    if [ "$CCRUN_REPEAT" -lt "$1" ]; then echo "$CCRUN_REPEAT"; else echo "$1"; fi
}

count() { seq 1 "$1"; }

# in_time FROM_MS LIMIT_MS: not more than so much has passed since $(now_ms) gave FROM_MS.
in_time() {
    read_stall
    in_time_took=$(($(now_ms) - $1)) in_time_stall=$((stall - case_stall))
    [ $in_time_stall -lt $in_time_took ] || in_time_stall=$in_time_took
    [ $((in_time_took - in_time_stall * 3 / 4)) -le "$2" ] || fail "took $in_time_took ms, more than $2"
}

# gpus N: from here on doubles of NCCL and of the driver (../support/fake) are in their place.  With REAL_GPUS=N in the
# environment it is the real ones, as far as there are so many GPUs.
gpus() {
    if [ -n "${REAL_GPUS:-}" ]; then
        [ "$1" -le "$REAL_GPUS" ] || skip "there are $REAL_GPUS GPUs"
    else
        export LD_LIBRARY_PATH="$SUPPORT/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        unset CUDA_VISIBLE_DEVICES CCRUN_NCCL || :
    fi
}

# doubles: only they can do what comes.
doubles() {
    [ -z "${REAL_GPUS:-}" ] || skip 'with the doubles of NCCL and the driver only'
    gpus 0
}
