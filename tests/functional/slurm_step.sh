#!/bin/sh
# ccrun under srun, in a real SLURM of three nodes: what the environment of a step comes down to.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
export SLURMLAB_GPUS=2
slurmlab_needed 3
limit 60

words <<'EOW'
say='echo "$(hostname) $RANK/$WORLD_SIZE node $GROUP_RANK/$GROUP_WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE"'
EOW

it 'needs no option under srun: a worker for each GPU of each node of the step' <<'EOF'
slurm srun -N3 --gres=gpu:2 "$CCRUN" --no-python sh -c "$say" >out 2>err || { cat err; fail 'srun failed'; }
sort out >all
printf '%s\n' 'node1 0/6 node 0/3 local 0/2' 'node1 1/6 node 0/3 local 1/2' 'node2 2/6 node 1/3 local 0/2' \
    'node2 3/6 node 1/3 local 1/2' 'node3 4/6 node 2/3 local 0/2' 'node3 5/6 node 2/3 local 1/2' >want
cmp all want || { cat out err; fail 'other ranks'; }
matches err 'ccrun: Slurm [0-9]+[.]0: 3 nodes, this is node 0, they meet at node1:[23][0-9]{4}$'
nothing_left
EOF

it 'counts the nodes of the step and not those of the job' <<'EOF'
slurm salloc -N3 srun -N2 -r1 "$CCRUN" --no-python sh -c "$say" >out 2>err || { cat err; fail 'salloc failed'; }
same 'node2 0/2 node 0/2 local 0/1 node3 1/2 node 1/2 local 0/1' "$(sort out | tr '\n' ' ' | sed 's/ $//')"
nothing_left
EOF

it 'lets two steps of a job run at once' <<'EOF'
cat >both <<X
srun -N2 -n2 --overlap --exact '$CCRUN' --no-python sh -c '$say' >first 2>first.err &
srun -N2 -n2 --overlap --exact '$CCRUN' --no-python sh -c '$say' >second 2>second.err &
wait
X
slurm salloc -N2 sh "$PWD/both" >out 2>err || { cat err; fail 'salloc failed'; }
for step in first second; do
    same 'node1 0/2 node 0/2 local 0/1 node2 1/2 node 1/2 local 0/1' "$(sort $step | tr '\n' ' ' | sed 's/ $//')"
done
nothing_left
EOF

it 'refuses to be each of several tasks on a node, and makes each a node when that was asked for (C19)' <<'EOF'
! slurm srun -N2 --ntasks-per-node=2 "$CCRUN" --no-python touch "$PWD/started" >out 2>err || fail 'it was accepted'
has err '2 of us were started on this node (SLURM_STEP_TASKS_PER_NODE)' '--ntasks-per-node=1'
[ ! -e started ]
slurm srun -N2 --ntasks-per-node=2 "$CCRUN" --nnodes 4 --no-python sh -c "$say" >out 2>err || { cat err; fail 'srun failed'; }
printf '%s\n' 'node1 0/4 node 0/4 local 0/1' 'node1 1/4 node 1/4 local 0/1' 'node2 2/4 node 2/4 local 0/1' \
    'node2 3/4 node 3/4 local 0/1' >want
sort out | cmp - want || { cat out err; fail 'other ranks'; }
nothing_left
EOF

it 'is one of the nodes of an mpiexec inside a job' <<'EOF'
command -v mpiexec.hydra >/dev/null || skip 'no mpiexec.hydra'
slurm salloc -N2 mpiexec.hydra -ppn 1 -n 2 "$CCRUN" --no-python sh -c "$say" >out 2>err || { cat err; fail 'mpiexec failed'; }
same 'node1 0/2 node 0/2 local 0/1 node2 1/2 node 1/2 local 0/1' "$(sort out | tr '\n' ' ' | sed 's/ $//')"
nothing_left
EOF

it 'expands node lists as scontrol does' <<'EOF'
for list in n1 'n[1-3]' 'n[08-11]' 'n[8-011]' 'n[099-101]' 'n[001,2,03]' 'a,b,c' 'n[1-2],m3' 'n[1-2]r[01-03,07]' \
    'a[1-2]b[1-2]c[1-2]' 'a[1-2]b[3-4]c[5-6]d[7-8]e[1,1]' 'n[1-2][3-4]' 'n[1-2]-[3-4]' 'ip-10-0-[0-1]-[1-2]' 'n[5,3,1]' \
    'n[1-2,2-3]' 'n1,n1' 'n[1-]' '[1-3]' '10.0.0.[1-3]' 'fe80::[1-2]' 'a_[1-2]' ' n1 , n2 ' 'n1,,n2' 'n[0-65535]'; do
    slurm scontrol show hostnames "$list" >theirs
    "$CCRUN" --expand-hosts "$list" | cmp - theirs || fail "'$list' is something else for scontrol"
done
EOF

done_testing
