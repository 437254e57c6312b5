# shellcheck shell=sh
# lib.sh - a few words for functional tests; sourced first.  The output is TAP.
#
#   it 'says what is true' command...         the command must succeed
#   it 'says what is true' <<'EOF'            a case of several lines: each line must succeed (sh -eu)
#   ...
#   EOF
#   words <<'EOF'                             functions for the cases that follow in this file
#   limit 60                                  seconds for the cases that follow (20 by default)
#   skip_all 'why'                            this machine cannot run the file, or what follows in it
#   skip 'why'                                in a case: this machine cannot run it, or the rest of it
#   done_testing                              at the end
#
# A case runs in an empty folder of its own (also $T; $SHARED is common to the cases of a file), in a shell of its own, with the words of case.sh, and is over
# when its time is; a process that it leaves behind is a failure by itself.
# Set by tests/run: CCRUN and SUPPORT (absolute), PYTHON (with torch, or empty), CCRUN_REPEAT.

: "${LIB:=$(cd "$(dirname "$0")/../functional" && pwd)}"
: "${CCRUN:=$(cd "$LIB/../.." && pwd)/build/bin/ccrun}"
: "${SUPPORT:=$(cd "$LIB/../.." && pwd)/build/bin/tests}"
TOP=$(mktemp -d) || exit 1
trap 'rm -rf "$TOP"' EXIT
trap 'exit 1' HUP INT TERM
HERE=$(cd "$(dirname "$0")" && pwd)
export CCRUN SUPPORT PYTHON="${PYTHON:-}" CCRUN_REPEAT="${CCRUN_REPEAT:-5}" LIB HERE
SHARED=$TOP/shared
mkdir "$SHARED" || exit 1
export SHARED
n=0 n_bad=0 seconds=20
[ -z "$PYTHON" ] || export PYTHON_EXEC="$PYTHON" # scripts that are launched use the Python with torch
cat "$LIB/case.sh" >"$TOP/words.sh"

limit() { seconds=$1; }
words() { cat >>"$TOP/words.sh"; }

it() {
    what=$1; shift
    n=$((n + 1)) T=$TOP/$n
    export T
    mkdir "$T" || exit 1
    if [ $# -eq 0 ]; then
        { cat "$TOP/words.sh"; cat; } >"$TOP/$n.sh"
        set -- sh -eu "$TOP/$n.sh"
    fi
    if (cd "$T" && exec "$SUPPORT/within" "$seconds" "$@") >"$TOP/log" 2>&1 </dev/null; then
        echo "ok $n - $what$([ ! -e "$T.skip" ] || sed 's/^/ # SKIP /' "$T.skip")"
    else
        echo "not ok $n - $what (status $?)"
        n_bad=$((n_bad + 1))
        tail -n 60 "$TOP/log" | sed 's/^/# /'
    fi
    rm -rf "$T" "$T.skip"
}

skip_all() {
    echo "1..$n # SKIP $1"
    exit $((n_bad > 0))
}

done_testing() {
    echo "1..$n"
    exit $((n_bad > 0))
}
