#!/bin/bash
# root.sh - a minimal Debian or Ubuntu in a folder: what a fresh machine has.  Needs root and debootstrap.
#
#   new DIR [SUITE]      this system's release, or SUITE, in DIR; a copy of one that is made once, in $ROOT_CACHE
#   in DIR command...    the command there, with processes, mounts, /dev/shm and an environment of its own; its status
#   on DIR USER DIRECTORY command...    the same as a user
#   files DIR            what is there, a path a line, but for what apt and dpkg write about themselves
#
# It has this machine's apt, pip and certificates as its administrator has set them up, and nothing else of it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
die() { echo "root.sh: $*" >&2; exit 1; }

# What pip is told to look at that is a folder of this machine.
pip_folders() {
    python3 -m pip config list 2>/dev/null | grep -E '(find-links|index-url)=' | grep -oE '/[^ ,'"'"']+' | sed 's|^//|/|' |
        grep -v '^//' | while read -r folder; do [ ! -d "$folder" ] || echo "${folder%/simple}"; done | sort -u
}

release() { # release VARIABLE: of this system
    . /etc/os-release
    eval "echo \"\$$1\""
}

# The archive that this machine installs from.
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
        sed -n "s/ $(release VERSION_CODENAME)\$//p" | head -n 1
}

make_base() { # make_base BASE SUITE
    rm -rf "$1.new"
    mkdir -p "${1%/*}"
    debootstrap --variant=minbase "$2" "$1.new" "$(mirror)" >"$1.log" 2>&1 || { tail -n 5 "$1.log" >&2; die "debootstrap of $2 failed"; }
    mv "$1.new" "$1"
}

new() {
    suite=${2:-$(release VERSION_CODENAME)}
    base=${ROOT_CACHE:?}/$suite
    [ -d "$base" ] || make_base "$base" "$suite"
    [ ! -e "$1" ] || die "'$1' is there already"
    cp -a --reflink=auto "$base" "$1"
    printf '127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n' "$(uname -n)" >"$1/etc/hosts"
    cp /etc/resolv.conf "$1/etc/"
    mkdir -p "$1/etc/ssl/certs" "$1/etc/xdg" "$1/usr/local/share"
    cp -r /usr/local/share/ca-certificates "$1/usr/local/share/" 2>/dev/null || : # and what they were made into, until the package comes
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$1/etc/"
    [ ! -e /etc/xdg/pip ] || cp -r /etc/xdg/pip "$1/etc/xdg/"
    for file in /etc/apt/apt.conf.d/*; do # but what packages bring
        dpkg -S "$file" >/dev/null 2>&1 || cp "$file" "$1/etc/apt/apt.conf.d/"
    done
    [ "$suite" != "$(release VERSION_CODENAME)" ] ||
        apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's/^\(Debian\|Ubuntu\) //p' >"$1/etc/apt/sources.list"
    for folder in $(pip_folders); do mkdir -p "$1$folder"; done
}

# Runs as process 1 of its own: whatever is left ends with it.
inside() { # inside DIR USER DIRECTORY command...
    root=$1 user=$2 dir=$3; shift 3
    for folder in $(pip_folders); do mount --bind -o ro "$folder" "$root$folder"; done
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/dev/shm"
    mount -t tmpfs shm "$root/dev/shm"
    set -- bash -c 'cd "$1" && shift && "$@"' - "$dir" "$@"
    [ "$user" = root ] || set -- setpriv --reuid="$user" --regid="$user" --init-groups "$@"
    home=/root
    [ "$user" = root ] || home=/home/$user
    # shellcheck disable=SC2046 # words
    env -i $(env | grep -E '^(PIP_[A-Z_]*|SSL_CERT_[A-Z]*|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|(http|https|no)_proxy|CCRUN_REPEAT)=[^ ]*$') \
        HOME="$home" USER="$user" LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$root" "$@"
}

on() {
    dir=$(readlink -f "$1"); shift
    exec unshare --mount --pid --fork --kill-child --propagation private "$BASH" "$0" inside "$dir" "$@" # gone with us
}

files() {
    (cd "$1" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/apt -o -path ./var/lib/dpkg \
        -o -path ./var/cache -o -path ./var/log -o -path ./etc/ld.so.cache -o -path ./root \) -prune -o -print) | sort
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
new | on | inside | files) "$verb" "$@" ;;
in) dir=$1; shift; on "$dir" root / "$@" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
