"""init_url.py INITURL [SEED]: what torch.distributed makes of an init method, and what INITURL does, for listed and random ones.

No store is opened: the constructors that PyTorch's handlers call are replaced by ones that note their arguments.  What
urllib parses is PyTorch's answer; what raises ValueError, RuntimeError or AssertionError has to give the same sentence."""
import itertools, os, random, subprocess, sys
import torch.distributed
rdzv = sys.modules["torch.distributed.rendezvous"] # torch.distributed has a function of that name

NAMES = ['RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT', 'TORCHELASTIC_USE_AGENT_STORE']
BIG = 1 << 24

def torch_says(url, rank, size, env):
    got = []
    def tcp(host, port, rank, size, timeout, use_libuv=True):
        if not 0 <= port < 2**16:
            raise ValueError(f'port must have value from 0 to 65535 but was {port}.')
        got.append(f'{host} {port} ')
        return None
    def file(path, size):
        got.append(f' 0 {path}')
        return None
    rdzv._create_c10d_store, rdzv.FileStore = tcp, file
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ.update(env)
    try:
        _, rank, size = next(rdzv.rendezvous(url, rank, size))
    except (ValueError, RuntimeError, AssertionError) as e:
        return '! ' + str(e)
    except IndexError:
        return '!?'
    if not 0 <= rank < size <= BIG:
        return '!?'
    scheme = rdzv.urlparse(url).scheme
    served = scheme != 'file' and env.get(NAMES[4]) == 'True'
    return f'{scheme} {got[0]} {rank} {size} {int(served)}'

def listed():
    full = dict(RANK='1', WORLD_SIZE='3', MASTER_ADDR='h', MASTER_PORT='29500')
    for url in ['tcp://h:1', 'tcp://H.Example:29500?rank=0&world_size=2', 'tcp://h', 'tcp://h:', 'tcp://:5', 'tcp:///x', 'tcp://h:70000',
                'tcp://h:x', 'tcp://h:-1', 'tcp://[::1]:5', 'tcp://[::1]', 'tcp://::1:5', 'tcp://[fe80::1%Eth0]:5', 'tcp://[1.2.3.4]:5',
                'tcp://[x]:5', 'tcp://[::1:5', 'tcp://u:p@h:5', 'tcp://h:5/path', 'tcp://h:5#f?rank=0', 'file:///tmp/f', 'file://tmp/f',
                'file:/tmp/f', 'file:f', 'file:', 'file://', 'file://host', 'file:///a%20b', 'file:///a;b', 'FILE:///x', 'env://', 'env:',
                'env://?rank=0', 'env://?world_size=9', '', 'x', 'http://h', 'mpi://', ' tcp://h:1', 't\ncp://h:1', 'tcp://h:0', 'tcp://h:65535',
                'tcp://h:1?rank=0', 'tcp://h:1?world_size=1', 'tcp://h:1?rank=0&&world_size=2&', 'tcp://h:1?rank=0=7&world_size=2',
                'tcp://h:1?rank&world_size=2', 'tcp://h:1?rank=&world_size=2', 'tcp://h:1?rank=0&world_size=x', 'tcp://h:1?rank=0&rank=1&world_size=2',
                'tcp://h:1?RANK=0&world_size=2', 'tcp://h:1?rank= 1_0 &world_size=%2020', 'file:///f?rank=0&world_size=1', 'file:///f?rank=0',
                'file:///f#g?rank=0&world_size=1', 'env://?rank=a', 'env://?use_libuv=0', 'tcp://h:00080?rank=+0&world_size=2']:
        for rank, size in [(-1, -1), (0, 2), (1, -1), (-1, 2)]:
            yield url, rank, size, full
    for n in range(5):
        for names in itertools.combinations(NAMES[:4], n):
            yield 'env://', -1, -1, {k: v for k, v in full.items() if k not in names}
            yield 'env://', -1, -1, {**full, **{k: '' for k in names}}
    for name, value in [('RANK', 'x'), ('RANK', '3'), ('RANK', '-1'), ('WORLD_SIZE', '0'), ('WORLD_SIZE', '1e3'), ('MASTER_PORT', '65536'),
                        ('MASTER_PORT', '-5'), ('MASTER_PORT', '0'), ('MASTER_PORT', '+80'), ('MASTER_ADDR', ' h')]:
        yield 'env://', -1, -1, {**full, name: value}
    for value in ['True', 'true', '1', '', 'False']:
        for url in ['env://', 'tcp://h:5?rank=0&world_size=1', 'file:///f?rank=0&world_size=1']:
            yield url, -1, -1, {**full, NAMES[4]: value}

def mixed(seed):
    pieces = ['tcp', 'file', 'env', 'TCP', ':', '//', '/', '?', '&', '=', '#', '@', '[', ']', '::1', 'h', '1.2.3.4', ':29500', 'rank=0', 'rank=1',
              'world_size=2', '&world_size=2', '?rank=0&world_size=2', 'use_libuv=0', '%', ';', ' ', '\t', 'x', '0', '_', '-', '+', '.', "'", '"', '\\']
    dice = random.Random(seed)
    while True:
        url = dice.choice(['tcp://h:1', 'file:///f', 'env://', 'tcp://', 'file:', '']) + ''.join(dice.choices(pieces, k=dice.randrange(6)))
        env = {name: dice.choice(['0', '1', '2', 'x', '', 'True', '29500']) for name in NAMES if dice.random() < 0.8}
        yield url, dice.choice([-1, -1, 0, 1, 5]), dice.choice([-1, -1, 2, 1]), env

def is_odd(url):
    """With a rank urllib writes the URL anew, and does not read it back as it wrote it: a path of two slashes becomes a host."""
    try:
        return rdzv.urlparse(url).path.startswith('//')
    except ValueError:
        return False

def is_unchecked(url):
    """Before 3.11.4 urllib took anything between brackets for an address."""
    return sys.version_info < (3, 11, 4) and '[' in url

cases = list(listed()) + list(itertools.islice(mixed(int((sys.argv + ['1'])[2])), 20000))
question = ''.join('\0'.join([url, str(rank), str(size)] + [env.get(name, '\1') for name in NAMES] + ['', ''])
                   for url, rank, size, env in cases)
out = subprocess.run([sys.argv[1]], input=question.encode(), capture_output=True, check=True).stdout.decode().split('\0')[:-1]
assert len(out) == len(cases), f'{len(out)} answers to {len(cases)} questions'
bad = 0
for (url, rank, size, env), ours in zip(cases, out):
    theirs = torch_says(url, rank, size, env)
    if ours == theirs or (theirs == '!?' and ours[0] == '!') or ((rank, size) != (-1, -1) and is_odd(url)) or is_unchecked(url):
        continue
    if bad < 20:
        bad += 1
        print(f'{url!r} rank {rank} size {size} {env}\n  torch: {theirs!r}\n  ccrun: {ours!r}')
print(len(cases), 'init methods')
sys.exit(bad > 0)
