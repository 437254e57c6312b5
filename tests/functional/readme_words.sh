# shellcheck shell=sh
# readme_words.sh - for tests that run what README says; sourced after lib.sh.
#
#   recipe NAME            the block behind <!-- test: NAME -->, as one would type it
#   stage                  what the recipes start, here: train.py, my.package.train, a.out; each says who it is
#   looks_like BLOCK FILE  the output in FILE is as BLOCK (below its first line) shows it, but for numbers, paths and the name of
#                          the host; "..." stands for whatever is there
words <<'EOF'
README=$LIB/../../README.md
recipe() {
    awk -v mark="<!-- test: $1 -->" '
        $0 == mark    { on = 1; next }
        on && /^    / { print substr($0, 5); any = 1; next }
        on            { exit }
        END           { exit !any }' "$README" || fail "README has no block '$1'"
}
stage() {
    mkdir -p my/package
    cat >train.py <<'PY'
import os, sys
name = __spec__.name if __spec__ else os.path.basename(sys.argv[0])
print("rank %s of %s: %s" % (os.environ["RANK"], os.environ["WORLD_SIZE"], " ".join([name] + sys.argv[1:])))
PY
    cp train.py my/package/train.py
    printf '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE: a.out"\n' >a.out
    chmod +x a.out
    unset PYTHON_EXEC # nothing here needs torch
    mkdir commands
    ln -s "$CCRUN" commands/ccrun
    export PATH="$PWD/commands:$PATH"
}
looks_like() {
    python3 - "$1" "$2" <<'PY'
import re, sys
def pattern(line):
    if line.startswith("..."):
        return "(.*\n)*?"
    line = re.escape(line).replace(r"\.\.\.", ".*")
    line = re.sub(r"/home/me/\S+?(?=\")", ".*", line.replace("\\ on\\ vm\\ ", "\\ on\\ \\S+\\ ").replace(":\\ vm", ":\\ \\S+"))
    return re.sub(r"[0-9]+", "[0-9]+", line.replace("\\ \\ ", "\\ \\ ?")) + "\n"
block = open(sys.argv[1]).read().splitlines()[1:]
text = open(sys.argv[2]).read()
for n in range(1, len(block) + 1):
    if not re.search("^" + "".join(map(pattern, block[:n])), text, re.M):
        sys.exit("README shows what is not in the output: %s\n%s" % (block[n - 1], text))
PY
}
EOF
