# shellcheck shell=sh
# README's recipes, taken out of it and run: one machine and a container.
. "$(dirname "$0")/lib.sh"
. "$LIB/readme_words.sh"
limit 60

it 'one machine' <<'E'
stage
recipe one-machine >script
sed -n '$p' script | grep -q -- '--dry-run' || fail 'the last line is to start nothing'
sh -eu script >out
same 4 "$(grep -c '^rank [0-3] of 4: train.py --lr 0.1$' out)"
same 4 "$(grep -c '^rank [0-3] of 4: my.package.train$' out)"
same 2 "$(grep -c '^rank [01] of 2: a.out$' out)"
matches out '^command .* -u train.py$'
same 10 "$(grep -c '^rank ' out)"
E

it 'a container' <<'E'
[ "$(id -u)" -eq 0 ] || skip 'containers need root'
command -v runc >/dev/null || skip 'containers need the program runc'
static=${CCRUN%/*}/ccrun-static
[ -e "$static" ] || skip 'there is no build/bin/ccrun-static (make static)'
stage
recipe container >Dockerfile
same 'COPY --from=ccrun /ccrun /usr/local/bin/ccrun' "$(sed -n 1p Dockerfile)"
grep -qx 'COPY --from=build /src/build/bin/ccrun-static /ccrun' "$LIB/../../scripts/docker/Dockerfile"
mkdir image
cp "$static" image/ccrun
sed -n 's/^ENTRYPOINT //p' Dockerfile | python3 -c 'import json, sys; print("\n".join(json.load(sys.stdin)))' >argv
set --
while read -r word; do set -- "$@" "$word"; done <argv
PATH="$PWD/image:$PATH" CTR_DIR="$T/ctr" bash "$LIB/../lab/ctr.sh" "readme$$" - 0 sh -c 'cd "$1" && shift && exec "$@"' - "$PWD" "$@" \
    >out 2>err || { cat out err; exit 1; }
n=$(grep -c '^rank ' out)
[ "$n" -ge 1 ]
same "$n" "$(grep -c "^rank [0-9]* of $n: train.py$" out)"
E

# That its environment makes one job of two containers is shown by container_kubernetes.sh.
it 'Kubernetes' <<'E'
manifest=$(recipe kubernetes | sed -n 's/^kubectl apply -f //p')
[ -s "$LIB/../../$manifest" ]
grep -q "$manifest\$" "$LIB/container_kubernetes.sh"
E

done_testing
