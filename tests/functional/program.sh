#!/bin/sh
# The program of the workers: which interpreter runs it, and what is refused before anything starts.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
unset PYTHON_EXEC VIRTUAL_ENV PYTHONPATH PYTHONSAFEPATH
# refuses STATUS 'sentence' ARGUMENT...: one line, that status, although restarts are allowed.
refuses() {
    refuses_status=$1 refuses_what=$2; shift 2
    expect_status "$refuses_status" "$CCRUN" --nproc 2 --max-restarts 3 "$@"
    has err "ccrun: error: $refuses_what"
    same 1 "$(wc -l <err)"
    empty out
}

# fake FILE WORD: an interpreter that says its name and what it was asked to run.
fake() {
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/sh\necho "%s $*"\n' "$2" >"$1"
    chmod +x "$1"
}
EOF

it 'refuses a script that Python could not run, with one line (C29)' <<'EOF'
mkdir dir
fake bin/python3 fake
PATH=$PWD/bin:$PATH
refuses 127 "'./train.py': no such file" ./train.py
refuses 127 "'ls': no such file; for the program" ls
refuses 126 "'dir' is a directory without __main__.py" dir
refuses 126 "'/bin/true' is a compiled program, not a Python script" /bin/true
printf '#!/usr/bin/env bash\n' >run.sh
printf '#!/bin/sh\n' >both
refuses 126 "'run.sh' is a script for a shell, not for Python: put --no-python before it" run.sh
expect_status 0 "$CCRUN" both
mkdir pkg
touch hello.py pkg/train.py
refuses 127 "'hello': no such file; but 'hello.py' is there" hello
refuses 127 "'./pkg/train': no such file; but './pkg/train.py' is there" ./pkg/train
refuses 127 "'pkg.train': no such file; for the module put -m before it" pkg.train
touch dir/__main__.py
expect_status 0 "$CCRUN" dir
same 'fake -u dir' "$(cat out)"
EOF

it 'refuses a program that cannot be executed, with one line (C29)' <<'EOF'
mkdir dir
echo x >plain
printf '#!/nonexistent/sh\n' >bad
printf '#!/bin/sh\r\necho\r\n' >dos
printf '#!/usr/bin/env nosuchtool\n' >lost
chmod +x bad dos lost
refuses 127 "'./no': no such file" --no-python ./no
refuses 127 "'nosuchtool': no such program on PATH" --no-python nosuchtool
refuses 126 "'./dir' is a directory" --no-python ./dir
refuses 126 "'./plain' is not executable" --no-python ./plain
refuses 126 "'./bad' needs the interpreter '/nonexistent/sh'" --no-python ./bad
refuses 126 "'./dos' has Windows line ends" --no-python ./dos
refuses 126 "'./lost' needs the interpreter 'nosuchtool'" --no-python ./lost
chmod +x plain
head -c 64 /bin/true >cut
chmod +x cut
expect_status 126 "$CCRUN" --no-python ./plain
matches err "^ccrun: .*'./plain': .*; a script needs a first line such as '#!/bin/sh', or is run as --no-python sh ./plain$"
expect_status 126 "$CCRUN" --no-python ./cut
has err "; it is a compiled program, but none for this machine ($(uname -m)), or it is damaged"
lacks err 'first line'
EOF

it 'refuses a module that Python does not find, with one line (C29)' <<'EOF'
[ -n "$PYTHON" ] && PYTHON_EXEC=$PYTHON && export PYTHON_EXEC
command -v "${PYTHON_EXEC:-python3}" >/dev/null || skip 'no Python'
refuses 127 "no module named 'nosuchmodule'" -m nosuchmodule
echo >train.py
refuses 127 "no module named 'train.py': --module takes a module name, 'train' without .py" -m train.py
mkdir pkg
echo 'print("ran", __name__)' >pkg/sub.py
expect_status 0 "$CCRUN" -m pkg.sub
same 'ran __main__' "$(cat out)"
expect_status 0 "$CCRUN" -m json.tool --help
has out usage
EOF

it 'takes PYTHON_EXEC, then the virtual environment, then python3, then python (C32)' <<'EOF'
touch s.py
fake bin/python python
run() { env PATH="$PWD/bin" "$CCRUN" s.py a >out; }
run
same 'python -u s.py a' "$(cat out)"
fake bin/python3 python3
run
same 'python3 -u s.py a' "$(cat out)"
mkdir -p venv
export VIRTUAL_ENV="$PWD/venv"
run # an environment without an interpreter is passed over
same 'python3 -u s.py a' "$(cat out)"
fake venv/bin/python venv
run
same 'venv -u s.py a' "$(cat out)"
fake other other
export PYTHON_EXEC=./other
run
same 'other -u s.py a' "$(cat out)"
export PYTHON_EXEC=./none
refuses 127 "PYTHON_EXEC: './none': no such file" s.py
unset PYTHON_EXEC VIRTUAL_ENV
rm bin/python bin/python3
expect_status 127 env PATH="$PWD/bin" "$CCRUN" s.py
has err 'no python3 or python on PATH'
EOF

it 'is of the environment that it is installed in, activated or not, as torchrun is; a link elsewhere is of none' <<'EOF'
touch s.py
fake v/bin/python v
fake active/bin/python active
fake bin/python3 path
mkdir links
ln "$CCRUN" v/bin/ccrun 2>/dev/null || cp "$CCRUN" v/bin/ccrun
ln -s "$PWD/v/bin/ccrun" links/ccrun
run() { env PATH="$PWD/bin:$PATH" "$@" s.py >out; cat out; }
same 'path -u s.py' "$(run v/bin/ccrun)" # nothing says that v is an environment
touch v/pyvenv.cfg
same 'v -u s.py' "$(run v/bin/ccrun)"
same 'v -u s.py' "$(run env VIRTUAL_ENV="$PWD/active" PATH="$PWD/v/bin:$PWD/bin:$PATH" ccrun)"
same 'path -u s.py' "$(run links/ccrun)"
same 'active -u s.py' "$(run env VIRTUAL_ENV="$PWD/active" "$PWD/links/ccrun")"
same 'path -u s.py' "$(run env PYTHON_EXEC=python3 v/bin/ccrun)"
rm v/pyvenv.cfg
mkdir v/conda-meta
same 'v -u s.py' "$(run "$PWD/v/bin/ccrun")"
"$PWD/links/ccrun" --hosts h1 --dry-run s.py >out
has out "test -x '\\''$PWD/links/ccrun'\\''"
EOF

it 'says which Python lacks a module, and why it was that one' <<'EOF'
mkdir bin
printf "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n" >bin/python3
chmod +x bin/python3
touch s.py
expect_status 1 env PATH="$PWD/bin:$PATH" "$CCRUN" s.py
has err "  python    : $PWD/bin/python3, the first python3 on PATH; PYTHON_EXEC=PATH chooses another"
expect_status 1 env PYTHON_EXEC="$PWD/bin/python3" "$CCRUN" s.py
has err "  python    : $PWD/bin/python3, which PYTHON_EXEC names; "
EOF

it 'looks programs up on the PATH that the workers get' <<'EOF'
fake tools/mytool mytool
refuses 127 "'mytool': no such program on PATH" --no-python mytool
expect_status 0 "$CCRUN" --env PATH="$PWD/tools:$PATH" --no-python mytool x
same 'mytool x' "$(cat out)"
EOF

it 'runs a file as the main program with --run-path' <<'EOF'
command -v "${PYTHON:-python3}" >/dev/null || skip 'no Python'
export PYTHON_EXEC="${PYTHON:-python3}"
echo 'import sys; print(__name__, sys.argv)' >s.py
expect_status 0 "$CCRUN" --run-path s.py -c 'a b'
same "__main__ ['s.py', '-c', 'a b']" "$(cat out)"
EOF

done_testing
