"""filestore.py PROGRAM CASE: one file, used by PyTorch's FileStore and by ours (PROGRAM), which must agree."""
import datetime, os, random, subprocess, sys, threading
import torch.distributed as dist

program, case, path = sys.argv[1], sys.argv[2], os.path.abspath('f')

class Ours:
    def __init__(self, size, ms=10000):
        self.p = subprocess.Popen([program, path, str(size), str(ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def tell(self, *words):
        self.p.stdin.write(' '.join(str(w) or '-' for w in words) + '\n')
        self.p.stdin.flush()
    def hear(self):
        return self.p.stdout.readline().rstrip('\n')
    def do(self, *words):
        self.tell(*words)
        return self.hear()
    def end(self):
        self.p.stdin.close()
        assert self.p.wait() == 0

def theirs(size):
    store = dist.FileStore(path, size)
    store.set_timeout(datetime.timedelta(seconds=10))
    return store

def same_answers():
    """Random calls to either; both see what the other did, and a model in Python is right about both."""
    a, b, dice, model = theirs(2), Ours(2), random.Random(7), {}
    for i in range(3000):
        key, value, delta = dice.choice('kmnop'), dice.choice(['', '7', 'x', 'long' * 50]), dice.randrange(-9, 9)
        what, mine = dice.choice(['set', 'get', 'add', 'compare_set', 'delete', 'check', 'num_keys']), dice.random() < 0.5
        if what == 'set':
            a.set(key, value) if mine else b.do('set', key, value)
            model[key] = value
        elif what == 'get' and key in model:
            got = a.get(key).decode() if mine else b.do('get', key)
            assert got == model[key], (i, key, got, model[key])
        elif what == 'add' and model.get(key, '') in ('', '7') or what == 'add' and model[key].lstrip('-').isdigit():
            got = a.add(key, delta) if mine else int(b.do('add', key, delta))
            model[key] = str(int(model.get(key) or 0) + delta)
            assert got == int(model[key]), (i, key, got, model[key])
        elif what == 'compare_set':
            expected = dice.choice([model.get(key, ''), 'wrong', ''])
            got = a.compare_set(key, expected, value).decode() if mine else b.do('compare_set', key, expected, value)
            if model.get(key, '') == expected:
                model[key] = value
            assert got == model.get(key, expected), (i, key, got)
        elif what == 'delete':
            a.delete_key(key) if mine else b.do('delete', key)
            model.pop(key, None)
        elif what == 'check':
            got = a.check([key]) if mine else b.do('check', key) == '1'
            assert got == (key in model), (i, key)
        elif what == 'num_keys':
            got = a.num_keys() if mine else int(b.do('num_keys'))
            assert got == len(model) + 1, (i, got, model) # refcount/
    b.end()
    assert os.path.exists(path)
    del a
    assert not os.path.exists(path), 'the last user removes the file'

def many_at_once():
    """Six users count together; each waits for all, and the last one removes the file."""
    ours, mine = [Ours(6) for _ in range(4)], [theirs(6) for _ in range(2)]
    def py(store, rank):
        for _ in range(200):
            store.add('sum', 1)
        store.set(f'done/{rank}', 'yes')
    threads = [threading.Thread(target=py, args=(s, r)) for r, s in enumerate(mine)]
    for c in ours:
        c.p.stdin.write('add sum 1\n' * 200 + f'set done/{2 + ours.index(c)} yes\n')
        c.p.stdin.flush()
    for t in threads: t.start()
    for t in threads: t.join()
    for s in mine:
        s.wait([f'done/{r}' for r in range(6)], datetime.timedelta(seconds=30))
        assert s.get('sum') == b'1200', s.get('sum')
    for c in ours:
        for _ in range(201): assert c.hear()[0] != '!'
        assert c.do('get', 'sum') == '1200'
    assert ours[0].do('wait', 'done/0') == '0'
    mine.clear(); threads.clear()
    del s
    import gc; gc.collect()
    for c in ours:
        assert os.path.exists(path)
        c.end()
    assert not os.path.exists(path)

def they_wait_for_us():
    a, b = theirs(2), Ours(2)
    threading.Timer(0.2, lambda: b.tell('set', 'late', '1')).start()
    assert a.get('late') == b'1' and b.hear() == '0'
    b.tell('get', 'later')
    a.set('later', '2')
    assert b.hear() == '2'
    b.end()

def stale():
    """Two ranks of PyTorch are killed; the next run with the file is told so, at once."""
    kids = [subprocess.Popen([sys.executable, '-W', 'ignore', '-c', f'''
import torch.distributed as d, sys
s = d.FileStore({path!r}, 2); s.set("a", "b"); print("up", flush=True); sys.stdin.read()'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for k in kids: assert k.stdout.readline() == b'up\n'
    for k in kids: k.kill(); k.wait()
    said = subprocess.run([program, path, '2'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert said.returncode == 1 and 'is stale: 2 users in a world of size 2' in said.stdout, said

globals()[case]()
