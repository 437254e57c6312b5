# shellcheck shell=sh
# README's recipes for several machines, taken out of it and run on two hosts with sshd and Slurm.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
. "$LIB/readme_words.sh"
export SLURMLAB_GPUS=8
slurmlab_needed 2
limit 80

words <<'EOF'
# all_of N FILE: each rank of N has run train.py.
all_of() {
    same "$1" "$(grep -c "^rank [0-9]* of $1: train.py$" "$2")"
    same "$1" "$(grep '^rank ' "$2" | sort -u | wc -l)"
}
EOF

it 'Slurm' <<'E'
stage
recipe sbatch >job.sh
job=$(slurm sbatch --parsable -o out job.sh)
wait_for 'case $(slurm squeue -h -t all -j $job -o %T) in COMPLETED | FAILED | CANCELLED | TIMEOUT) ;; *) false ;; esac' 40
all_of 16 out
nothing_left
E

it 'two machines, by ssh' <<'E'
bash "$LAB/netlab.sh" sshd all >log 2>&1 || skip "no sshd here: $(tail -n 1 log)"
stage
recipe ssh >script
on 1 env PATH="$NETLAB_DIR/bin:$PATH" sh -eu script >out
all_of 8 out
nothing_left
E

it 'two machines, by hand' <<'E'
stage
recipe by-hand >script
bg two "$SUPPORT/labhelper" exec "$(lab pid 2)" sh -eu script
on 1 sh -eu script >one.out
ends "$pid" 0
cat one.out two.out >out
all_of 8 out
same 4 "$(grep -c '^rank ' one.out)"
nothing_left
E

done_testing
