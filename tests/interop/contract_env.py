"""The environment that torchelastic promises its workers: contract_env.py FOLDER. Touches FOLDER/RANK when it is there."""
import os
import sys

for name in ("LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "ROLE_WORLD_SIZE",
             "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
             "OMP_NUM_THREADS", "TORCHELASTIC_ERROR_FILE", "SENTINEL"):
    if not os.environ.get(name):
        sys.exit("%s is not set" % name)
for name in ("LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_PORT",
             "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "OMP_NUM_THREADS"):
    int(os.environ[name])
open(os.path.join(sys.argv[1], os.environ["RANK"]), "x").close()
