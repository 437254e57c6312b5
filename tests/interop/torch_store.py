"""torch_store.py KIND COMMAND...: PyTorch's own store (libuv or legacy) on loopback, and COMMAND HOST PORT KIND against it.

Exits with the command's status.  The resolver is kept out of it (see check_store.py): the server asks it for the name of
each client."""
import datetime, os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'store'))
sys.dont_write_bytecode = True
import check_store

check_store.without_dns()
import torch.distributed as dist

kind = sys.argv[1]
store = dist.TCPStore('127.0.0.1', 0, None, True, datetime.timedelta(seconds=60), wait_for_workers=False,
                      use_libuv=kind == 'libuv')
status = subprocess.call(sys.argv[2:] + ['127.0.0.1', str(store.port), kind])
sys.stdout.flush()
os._exit(status)
