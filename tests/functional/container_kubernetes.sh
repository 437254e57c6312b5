#!/bin/sh
# What Kubernetes puts into a container is the whole configuration: no option is given here, on two containers in networks of
# their own.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
. "$LIB/container_case.sh"
netlab_needed 2
containers_needed
containers_and_hosts_end() {
    bash "$LAB/netlab.sh" down
    containers_end
}
trap containers_and_hosts_end EXIT
MANIFEST=$(cd "$LIB/../.." && pwd)/scripts/docker/kubernetes.yaml
export MANIFEST

words <<'EOF'
# pod NAME HOST VARIABLE=VALUE...: its entry point is ccrun with the script alone; pods know each other by name
pod() {
    pod_name=$1 pod_host=$2; shift 2
    NETNS=/proc/$(lab pid "$pod_host")/ns/net bg_ctr "$pod_name" sh -c '{ echo "10.77.0.1 $1"; echo "10.77.0.2 $2"; } >>/etc/hosts
        shift 2; exec "$@"' - "$HEAD" "$OTHER" env KUBERNETES_SERVICE_HOST=10.0.0.1 "$@" "$CCRUN" "$T/worker.py"
    eval "$pod_name=\$pid"
}
script() {
    echo 'import os; print("node %s of %s: rank %s of %s" % tuple(os.environ[n] for n in ("GROUP_RANK", "GROUP_WORLD_SIZE", "RANK", "WORLD_SIZE")))' \
        >worker.py
}
together() { # a is node 0 and b node 1, with so many workers each
    ends "$a" 0 30
    ends "$b" 0 30
    for together_rank in $(seq 0 $((2 * $1 - 1))); do
        together_node=$((together_rank / $1))
        [ $together_node -eq 0 ] && together_out=a.out || together_out=b.out
        has $together_out "node $together_node of 2: rank $together_rank of $((2 * $1))"
    done
}
EOF
limit 60
[ "$CCRUN_REPEAT" -lt 50 ] || limit 300

it 'an Indexed Job: the environment of the manifest in scripts/docker, and the index' <<'EOF'
script
HEAD=train-0.train OTHER=train-1.train
set -- $(awk '$2 == "name:" && $3 ~ /^(PET|CCRUN)_/ { name = $3 } $1 == "value:" && name { gsub("\"", "", $2); print name "=" $2; name = "" }' "$MANIFEST")
same 8 $#
set -- "$@" PET_NPROC_PER_NODE=2 # what auto counts depends on the machine
pod b 2 "$@" JOB_COMPLETION_INDEX=1 # first: the rank is not that of who comes first
wait_for 'grep -q "waiting for the host" b.err'
pod a 1 "$@" JOB_COMPLETION_INDEX=0
together 2
EOF

it 'a JobSet' <<'EOF'
script
HEAD=set-workers-0-0.set OTHER=set-workers-0-1.set
set -- PET_NNODES=2 JOBSET_NAME=set REPLICATED_JOB_NAME=workers
pod a 1 "$@" JOB_COMPLETION_INDEX=0 JOB_GLOBAL_INDEX=0
pod b 2 "$@" JOB_COMPLETION_INDEX=1 JOB_GLOBAL_INDEX=0
together 1
EOF

it 'a PyTorchJob of version 2, and of version 1' <<'EOF'
script
HEAD=job-master-0 OTHER=job-worker-0
set -- PET_MASTER_ADDR=$HEAD PET_MASTER_PORT=23456 PET_NNODES=2 PET_NPROC_PER_NODE=2
pod a 1 "$@" PET_NODE_RANK=0
pod b 2 "$@" PET_NODE_RANK=1
together 2
set -- MASTER_PORT=23456 WORLD_SIZE=2
pod a 1 "$@" MASTER_ADDR=localhost RANK=0 # the master is told so
pod b 2 "$@" MASTER_ADDR=$HEAD RANK=1
together 1
EOF

it 'the manifests are what Kubernetes accepts, from 1.25 on' <<'EOF'
[ "$CCRUN_REPEAT" -ge 50 ] || python3 -c 'import kubernetes_validate' 2>/dev/null || skip 'fetches the schemas: make check-images'
python3 -c 'import kubernetes_validate' 2>/dev/null || python3 -m pip install -q --target py kubernetes-validate==1.37.0 >log 2>&1 || skip "the schemas of Kubernetes could not be had: $(tail -n 1 log)"
cat >check.py <<'END'
import sys, yaml, kubernetes_validate
newest = int(kubernetes_validate.latest_version().split(".")[1])
assert newest >= 31, newest
for version in ["1.%d" % n for n in range(25, newest + 1)]:
    kinds = []
    for document in yaml.safe_load_all(open(sys.argv[1])):
        kubernetes_validate.validate(document, version, strict=True)
        kinds.append(document["kind"])
    assert kinds == ["Service", "Job"], kinds
    document["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {} # it can fail
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError:
        continue
    sys.exit("a wrong name was accepted by " + version)
END
PYTHONPATH=py python3 check.py "$MANIFEST"
EOF

it 'the compose file has two nodes that name each other, each with a probe and more than 64 MB of /dev/shm' <<'EOF'
python3 -c 'import yaml' 2>/dev/null || skip 'no Python module yaml'
python3 - "$(dirname "$MANIFEST")/compose.yaml" <<'END'
import sys, yaml
services = yaml.safe_load(open(sys.argv[1]))["services"]
for name, s in services.items():
    assert s["hostname"] == name and s["shm_size"] == "8gb" and not s["init"], name
    assert s["environment"]["PET_NNODES"] == str(len(services))
    assert s["environment"]["PET_RDZV_ENDPOINT"].split(":")[0] in services
    assert s["healthcheck"]["test"] == ["CMD", "ccrun", "--probe", "live"]
    assert int(s["environment"]["CCRUN_SHUTDOWN_TIMEOUT"]) < int(s["stop_grace_period"].rstrip("s"))
END
EOF
done_testing
