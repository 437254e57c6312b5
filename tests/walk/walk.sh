# shellcheck shell=sh
# README's two commands, exactly as it has them, in a fresh clone on a machine with nothing but git and make.
#
#   WALK           who walks: root, user (has sudo), space (root, in a path with a space); all of them
#   WALK_COMMANDS  how many of the commands: 2
# Takes most of an hour for each.  Needs root, debootstrap, and the network that apt and pip are set up for.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/readme_words.sh"
: "${ROOT_CACHE:?a folder for minimal systems}" "${WALK:=root user space}" "${WALK_COMMANDS:=2}"
export ROOT_CACHE WALK_COMMANDS
[ "$(id -u)" -eq 0 ] || skip_all 'a system in a folder needs root'
PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null || skip_all 'a minimal system needs the program debootstrap'
unshare --mount --pid --fork true 2>/dev/null || skip_all 'this machine makes no namespaces'
git -C "$LIB" rev-parse -q --verify HEAD >/dev/null 2>&1 || skip_all 'this is no git checkout: there is nothing to clone'
limit 7200

words <<'EOF'
root() { bash "$LIB/../lab/root.sh" "$@"; }
# walk USER FOLDER: clones into FOLDER and runs the commands as USER.
walk() {
    recipe walk | sed 's/ *#.*//' | head -n "$WALK_COMMANDS" >commands
    same "make quickstart" "$(head -n 1 commands)"
    root new r || skip "no minimal system: $(tail -n 1 "$ROOT_CACHE"/*.log)"
    root in r sh -c 'export DEBIAN_FRONTEND=noninteractive
        { apt-get -q update && apt-get -q install -y --no-install-recommends git make sudo; } >/tmp/log 2>&1 || { tail /tmp/log; exit 1; }'
    root in r sh -c 'useradd -m -s /bin/sh me && echo "me ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/me'
    git -C "$LIB/../.." bundle create -q "$PWD/r/srv/ccrun.bundle" HEAD
    root on r "$1" / sh -euc 'mkdir -p "$1" && git clone -q /srv/ccrun.bundle "$1/ccrun"' - "$2"
    number=0
    while read -r command; do
        number=$((number + 1))
        echo "\$ $command"
        root on r "$1" "$2/ccrun" sh -c "$command" </dev/null >"out.$number" 2>&1 || {
            grep -A 12 '^ *not ok' "out.$number" || true
            tail -n 60 "out.$number"
            fail "'$command' failed for $1 in '$2'"
        }
    done <commands
    recipe quickstart >block
    looks_like block out.1
    # What it wrote is the user's, and lies in the checkout.
    same '' "$(find "r$2/ccrun" ! -user "$(root in r id -u "$1")" | head -n 3)"
    same '' "$(git -c safe.directory='*' -C "r$2/ccrun" status --porcelain | head -n 3)"
}
EOF

for who in $WALK; do
    case $who in
    root) it 'as root' sh -euc '. "$0"; walk root /root' "$TOP/words.sh" ;;
    user) it 'as a user with sudo' sh -euc '. "$0"; walk me /home/me' "$TOP/words.sh" ;;
    space) it 'in a path with a space' sh -euc '. "$0"; walk root "/root/my work"' "$TOP/words.sh" ;;
    *) echo "walk.sh: '$who' is none of: root user space" >&2; exit 2 ;;
    esac
done
done_testing
