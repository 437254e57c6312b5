"""mixed_store.py URL: a Python rank beside C ranks (storeuser.c, which says what each does) in one store, made by torch's rendezvous()."""
import datetime, os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'store'))
sys.dont_write_bytecode = True
import check_store

check_store.without_dns()
import torch.distributed as dist

rank, size, url = int(os.environ['RANK']), int(os.environ['WORLD_SIZE']), sys.argv[1]
args = {} if url.startswith('env:') else dict(rank=rank, world_size=size)
if not url.startswith('file:'):
    args['timeout'] = datetime.timedelta(seconds=30)
store, rank, size = next(dist.rendezvous(url, **args))
store.set(f'from/{rank}', f'hello {rank}')
for r in range(size):
    assert store.get(f'from/{r}') == f'hello {r}'.encode()
store.add('sum', rank + 1)
store.barrier('added', size)
assert int(store.get('sum')) == size * (size + 1) // 2
store.barrier('done', size)
if rank == 0:
    store.wait([f'left/{r}' for r in range(1, size)])
else:
    store.set(f'left/{rank}', '1')
print('well', flush=True)
