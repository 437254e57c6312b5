#!/bin/sh
# The Dockerfiles of scripts/docker, built by podman without a registry: the base image is made of what is installed here.
# Takes minutes, so it runs when it is asked for: make check-images.
. "$(dirname "$0")/lib.sh"
. "$LIB/container_case.sh"
[ "$CCRUN_REPEAT" -ge 50 ] || skip_all 'only with CCRUN_REPEAT of 50 and more (make check-images)'
command -v podman >/dev/null || skip_all "images need the program 'podman'"
containers_needed
limit 900

# podman's runtime may not raise limits where the capability for that is missing.
cat >"$SHARED/runtime" <<'EOF'
#!/usr/bin/env python3
import json, os, sys
for i, a in enumerate(sys.argv):
    if a in ("--bundle", "-b"):
        path = os.path.join(sys.argv[i + 1], "config.json")
        config = json.load(open(path))
        config["process"].pop("rlimits", None)
        json.dump(config, open(path, "w"))
os.execvp("runc", ["runc"] + sys.argv[1:])
EOF
chmod +x "$SHARED/runtime"
images_end() {
    umount -l "$SHARED/root/overlay" 2>/dev/null
    containers_end
}
trap images_end EXIT

words <<'EOF'
pod() {
    podman --root "$SHARED/root" --runroot "$SHARED/run" --cgroup-manager=cgroupfs --runtime="$SHARED/runtime" --events-backend=none "$@"
}
build() { pod build --isolation=chroot --network=host "$@" >log 2>&1 || { tail -n 20 log; fail 'the image was not built'; }; }
unpack() { # unpack IMAGE FOLDER: its files
    pod create --name unpack "$1" >/dev/null
    mkdir "$2"
    pod export unpack | tar -C "$2" -xf -
    pod rm unpack >/dev/null
}
tools='gcc libc6-dev make pkg-config dpkg-dev libuv1-dev libcjson-dev libcurl4-openssl-dev coreutils dash sed grep findutils'
EOF

it 'makes an image of one file FROM scratch, and one that trains with it as process 1' <<'EOF'
mkdir base src
apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $tools |
    grep '^[a-z]' | sort -u | xargs dpkg -L 2>/dev/null | sort -u | grep -v '^/usr/share/[dlmi]' |
    sed 's#^/\(bin\|sbin\|lib\|lib64\)/#/usr/\1/#' | sort -u |
    while read -r f; do { [ ! -L "$f" ] && [ ! -f "$f" ]; } || echo "${f#/}"; done >files
tar -C / --no-recursion -cf - -T files bin sbin lib lib64 tmp | tar -C base -xf -
cp "$LIB/../../build/static/lib/libcjson.a" base/usr/lib/ 2>/dev/null || true # else it is fetched there
mv base/usr/lib/libcjson.a "base/usr/lib/$(gcc -print-multiarch)/" 2>/dev/null || true
tar -C base --numeric-owner -cf - . | pod import - base >/dev/null
(cd "$LIB/../.." && git ls-files -co --exclude-standard | tar -cf - -T -) | tar -C src -xf -

build --build-arg BUILD_IMAGE=base -f src/scripts/docker/Dockerfile -t ccrun src
unpack ccrun only
same ccrun "$(find only -type f -printf '%f\n' | grep -v '^\.dockerenv$' | grep -vE '^(hosts|resolv.conf|hostname|containerenv)$')"
same '["/ccrun"]' "$(pod inspect -f '{{json .Config.Entrypoint}}' ccrun)"
CTR_ROOT=$PWD/only expect_status 0 ctr only /ccrun --version
has out 'not here: etcd (this program is static)'

build --build-arg TRAIN_IMAGE=base --build-arg CCRUN_IMAGE=ccrun -f src/scripts/docker/Dockerfile.train -t train src/scripts/docker
same '["ccrun"] ["--nproc-per-node","auto","train.py"] 1000:1000 /app' \
    "$(pod inspect -f '{{json .Config.Entrypoint}} {{json .Config.Cmd}} {{.Config.User}} {{.Config.WorkingDir}}' train)"
unpack train trains
[ -f trains/app/train.py ] || fail 'the script is not in it'
CTR_ROOT=$PWD/trains CTR_USER=1000 expect_status 0 ctr train ccrun --nproc-per-node 2 --no-python sh -c 'echo "$RANK"'
same '0 1' "$(sort out | paste -sd' ')"
EOF
done_testing
