#!/bin/sh
# libccrun under valgrind: no byte is used that nobody wrote, none after it was released, and none is lost.
. "$(dirname "$0")/lib.sh"
command -v valgrind >/dev/null || skip_all 'no valgrind'
nm -D "${CCRUN%/*}/../lib/libccrun.so" | grep -q '__asan_' && skip_all 'built with a sanitizer'
limit 180

words <<'EOF'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
# What libraries keep until the end, which nobody can release, is no loss: libccrun-gloo stays loaded.
clean() { # clean KINDS N program...: N ranks, none of which valgrind has anything to say about; KINDS of losses
    [ "${4:-}" != gloo ] || [ -e "$GLOO" ] || skip 'libccrun was built without gloo'
    [ "${4:-nccl}" != nccl ] || doubles
    export kinds=$1 ranks=$2; shift 2
    cat >rank.sh <<'END'
program=$1; shift
exec valgrind -q --leak-check=full --show-leak-kinds="$kinds" --errors-for-leak-kinds="$kinds" --error-exitcode=99 \
    --suppressions="$LIB/../support/valgrind.supp" --log-file="$PWD/said.%p" "$SUPPORT/$program" "$@"
END
    "$CCRUN" --no-python --nproc-per-node "$ranks" sh rank.sh "$@" >out 2>err || { cat said.* err; exit 1; }
    cat said.* >said
    empty said
}
EOF

# It is slow: all of it in a full run.
is_full() { [ "$CCRUN_REPEAT" -ge 50 ]; }
for cell in 'self env:// 1' 'ref env:// 2' 'ref file 2' 'gloo env:// 2' 'gloo file 2' 'nccl env:// 2'; do
    is_full || [ "$cell" = 'ref file 2' ] || [ "$cell" = 'gloo env:// 2' ] || continue
    # shellcheck disable=SC2086 # three words
    set -- $cell
    it "every collective, checked: $cell" <<EOF
method=$2
[ \$method != file ] || method=file://\$PWD/meet
clean definite,indirect,possible $3 collsuite $1 \$method
same $3 "\$(grep -c ' checked\$' out)"
EOF
done

# Ranks that end in the middle keep what they have.
for cell in 'gloo mid-0' 'gloo abort-0' 'gloo requests' 'ref abort-10' 'nccl mid-0' 'nccl abort-0' 'nccl requests' 'nccl late'; do
    is_full || [ "$cell" = 'gloo mid-0' ] || continue
    it "a peer dies, or the call is aborted: $cell" <<EOF
clean definite,indirect 3 collfault $cell
grep -q '^told: ' out
EOF
done

it 'buffers on GPUs, streams and messages, over the doubles of NCCL and the driver' <<'EOF'
clean definite,indirect,possible 2 nccldev
same 2 "$(grep -c ' checked$' out)"
EOF
done_testing
