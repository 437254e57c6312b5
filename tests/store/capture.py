#!/usr/bin/env python3
"""Capture byte vectors of PyTorch's TCPStore protocol from the torch that this interpreter imports.

  capture.py --out DIR              all cases, both server backends, one JSON file a case
  capture.py --out DIR --versions   the short list of cases only (used to compare torch releases)
  capture.py --list                 names of the cases

A recording TCP proxy (a process of its own, no torch in it) stands between a real TCPStore client and a
real TCPStore server, all on loopback. Raw cases send hand-made bytes to a real server and record its answer. Every client stream is decoded
again by decode() below, which must consume it exactly: so the layouts are understood.

Fields of a vector file:
  name, torch, backend ("libuv", "legacy", or "both" when both servers gave the same bytes), dialect, note
  client_hex, server_hex   what each side sent on connection 0, in order, a list of bursts (consecutive
                           chunks of one side are joined; the split between bursts is where the other side spoke)
  events                   [[conn, "c"|"s", hex] ...] over all connections, in the order the proxy saw them;
                           hex "" means that side closed its sending half
  decoded                  one line a message
  result                   what the Python call returned or raised
  replay                   "exact": a server that is sent the events' client bytes in that order must give the server
                           bytes (of "libuv" where the two differ); else why not
The nonce of PING is the client's process id: the 4 bytes after op 13, and the 4 bytes the server echoes.
"""
import argparse, datetime, json, os, select, socket, struct, subprocess, sys, tempfile, threading, time

# ---------------------------------------------------------------------------------------------- proxy process
def proxy_main(listen_host, listen_port, target_host, target_port, log):
    ls = socket.socket()
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ls.bind((listen_host, listen_port))
    ls.listen(64)
    print(ls.getsockname()[1], flush=True)
    out = open(log, 'w', buffering=1)
    peer, name = {}, {}
    n = 0
    fds = [ls, sys.stdin]
    t0 = time.monotonic()
    while True:
        for s in select.select(fds, [], [])[0]:
            if s is sys.stdin:  # whoever started this proxy is gone
                return
            if s is ls:
                c, _ = ls.accept()
                u = socket.create_connection((target_host, target_port))
                for x in (c, u):
                    x.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer[c], peer[u] = u, c
                name[c], name[u] = (n, 'c'), (n, 's')
                n += 1
                fds += [c, u]
                continue
            try:
                b = s.recv(1 << 20)
            except OSError:
                b = b''
            conn, d = name[s]
            out.write(json.dumps([round(time.monotonic() - t0, 4), conn, d, b.hex()]) + '\n')
            if b:
                try:
                    peer[s].sendall(b)
                except OSError:
                    pass
            else:
                fds.remove(s)
                try:
                    peer[s].shutdown(socket.SHUT_WR)
                except OSError:
                    pass


class Proxy:
    def __init__(self, target_host, target_port, listen_host='127.0.0.1', listen_port=0):
        self.log = tempfile.mktemp(suffix='.jsonl')
        env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'LD_LIBRARY_PATH')}
        self.p = subprocess.Popen([sys.executable, '-S', __file__, '--proxy', listen_host, str(listen_port),
                                   target_host, str(target_port), self.log], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.port = int(self.p.stdout.readline())

    def events(self):
        ev = []
        with open(self.log) as f:
            for line in f:
                _, conn, d, h = json.loads(line)
                if ev and h and ev[-1][0] == conn and ev[-1][1] == d and ev[-1][2]:
                    ev[-1][2] += h
                else:
                    ev.append([conn, d, h])
        return ev

    def close(self):
        self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()
        try:
            os.unlink(self.log)
        except OSError:
            pass

# ---------------------------------------------------------------------------------------------- wire decoding
OPS_C = ['VALIDATE', 'SET', 'COMPARE_SET', 'GET', 'ADD', 'CHECK', 'WAIT', 'GETNUMKEYS', 'DELETE_KEY', 'APPEND',
         'MULTI_GET', 'MULTI_SET', 'CANCEL_WAIT', 'PING', 'QUEUE_PUSH', 'QUEUE_POP', 'QUEUE_LEN', 'LIST_KEYS', 'BARRIER']
OPS_B = ['SET', 'COMPARE_SET', 'GET', 'ADD', 'CHECK', 'WAIT', 'GETNUMKEYS', 'DELETE_KEY', 'APPEND', 'MULTI_GET',
         'MULTI_SET', 'CANCEL_WAIT']
OPS_A = ['SET', 'COMPARE_SET', 'GET', 'ADD', 'CHECK', 'WAIT', 'GETNUMKEYS', 'WATCH_KEY', 'DELETE_KEY']
DIALECT = {'C': OPS_C, 'B': OPS_B, 'A': OPS_A}
LAYOUT = {'VALIDATE': 'I', 'SET': 'kv', 'COMPARE_SET': 'kvv', 'GET': 'k', 'ADD': 'kq', 'CHECK': 'K', 'WAIT': 'K',
          'GETNUMKEYS': '', 'WATCH_KEY': 'k', 'DELETE_KEY': 'k', 'APPEND': 'kv', 'MULTI_GET': 'K', 'MULTI_SET': 'P',
          'CANCEL_WAIT': '', 'PING': 'I', 'QUEUE_PUSH': 'kv', 'QUEUE_POP': 'k', 'QUEUE_LEN': 'k', 'LIST_KEYS': '',
          'BARRIER': 'kq'}


def brief(b):
    return repr(b) if len(b) <= 48 else '%r...(%d bytes)' % (b[:16], len(b))


def decode(stream, dialect):
    """One client stream to [(op, args)], and what is left undecoded."""
    ops, p, n = [], 0, len(stream)
    names = DIALECT[dialect]

    def u64():
        nonlocal p
        if p + 8 > n:
            raise EOFError
        v, = struct.unpack_from('<Q', stream, p)
        p += 8
        return v

    def vec():
        nonlocal p
        k = u64()
        if p + k > n:
            raise EOFError
        v = stream[p:p + k]
        p += k
        return v
    while p < n:
        start = p
        code = stream[p]
        p += 1
        if code >= len(names):
            return ops, stream[start:]
        op, args = names[code], []
        try:
            for f in LAYOUT[op]:
                if f in 'kv':
                    args.append(vec())
                elif f == 'q':
                    args.append(struct.unpack('<q', struct.pack('<Q', u64()))[0])
                elif f == 'I':
                    if p + 4 > n:
                        raise EOFError
                    args.append(struct.unpack_from('<I', stream, p)[0])
                    p += 4
                elif f == 'K':
                    args.append([vec() for _ in range(u64())])
                elif f == 'P':
                    args.append([(vec(), vec()) for _ in range(u64())])
        except EOFError:
            return ops, stream[start:]
        ops.append((op, args))
    return ops, b''


def fmt_arg(a):
    if isinstance(a, bytes):
        return brief(a)
    if isinstance(a, list):
        return '[' + ', '.join(fmt_arg(x) for x in a) + ']'
    if isinstance(a, tuple):
        return '(' + ', '.join(fmt_arg(x) for x in a) + ')'
    return hex(a) if a > 1 << 24 else str(a)


def describe(events, dialect):
    """decoded lines of every connection, client side; server side stays hex (short) in order."""
    lines = []
    bufs = {}
    for conn, d, h in events:
        if h == '':
            lines.append('conn %d: %s closes' % (conn, {'c': 'client', 's': 'server'}[d]))
            continue
        b = bytes.fromhex(h)
        if d == 's':
            lines.append('conn %d: server <- %s' % (conn, b.hex() if len(b) <= 64 else b[:32].hex() + '...(%d bytes)' % len(b)))
            continue
        buf = bufs.get(conn, b'') + b
        ops, rest = decode(buf, dialect)
        bufs[conn] = rest
        for op, args in ops:
            lines.append('conn %d: client -> %s %s' % (conn, op, ' '.join(fmt_arg(a) for a in args)))
    rest = {c: r.hex() for c, r in bufs.items() if r}
    return lines, rest

# ---------------------------------------------------------------------------------------------- cases on real clients
def sec(x):
    return datetime.timedelta(seconds=x)


class Ctx:
    def __init__(self, uv):
        self.uv, self.proxy, self.srv, self.keep = uv, None, None, []

    def kw(self):
        return {} if self.uv is None else {'use_libuv': self.uv}

    def server(self, timeout=10):
        self.srv = dist.TCPStore('127.0.0.1', 0, None, True, sec(timeout), wait_for_workers=False, **self.kw())
        self.proxy = Proxy('127.0.0.1', self.srv.port)
        return self.srv

    def client(self, timeout=10, world_size=None, wait=False):
        if self.srv is None:
            self.server()
        kw = dict(self.kw())
        return dist.TCPStore('127.0.0.1', self.proxy.port, world_size, False, sec(timeout), wait_for_workers=wait, **kw)


def outcome(f):
    try:
        r = f()
        return repr(r)
    except Exception as e:
        return '%s: %s' % (type(e).__name__, str(e).splitlines()[0][:160])


CASES = []
SHORT = set()


def case(note, short=False, only=None, has=None, uvonly=False):
    def deco(f):
        CASES.append((f.__name__, f, note, only, has, uvonly))
        if short:
            SHORT.add(f.__name__)
        return f
    return deco


@case('What the constructor sends with wait_for_workers=False: VALIDATE, then PING whose nonce is the pid.', short=True)
def connect(x):
    x.client()
    return 'connected'


@case('Constructor with world_size=1 and wait_for_workers=True on a non-master: ADD of the bare key "init/" by 1 '
      '(no "/" in front), nothing else; a non-master does not poll.', short=True)
def connect_wait_for_workers(x):
    x.client(world_size=1, wait=True)
    return 'connected'


@case('Constructor of the master itself (a listening fd on 127.0.0.2, its own client through the proxy on '
      '127.0.0.1) with world_size=2: ADD "init/" 1, then WAIT+GET of "init/" every 10 ms until the text is >= 2.',
      has='master_listen_fd')
def master_wait_for_workers(x):
    ls = socket.socket()
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ls.bind(('127.0.0.2', 0))
    port = ls.getsockname()[1]
    x.proxy = Proxy('127.0.0.2', port, '127.0.0.1', port)
    late = []

    def joiner():
        time.sleep(0.035)
        late.append(dist.TCPStore('127.0.0.2', port, 2, False, sec(10), wait_for_workers=True, **x.kw()))
    t = threading.Thread(target=joiner)
    t.start()
    x.srv = dist.TCPStore('127.0.0.1', port, 2, True, sec(10), wait_for_workers=True, master_listen_fd=os.dup(ls.fileno()), **x.kw())
    t.join()
    ls.close()
    x.keep = late
    return 'both joined'


@case('SET has no answer; GET is WAIT of one key, then GET.', short=True)
def set_get(x):
    s = x.client()
    s.set('k', 'value')
    return outcome(lambda: s.get('k'))


@case('A value of zero length.', short=True)
def set_get_empty_value(x):
    s = x.client()
    s.set('k', '')
    return outcome(lambda: s.get('k'))


@case('The empty key: on the wire it is "/".')
def empty_key(x):
    s = x.client()
    s.set('', 'v')
    return outcome(lambda: s.get(''))


@case('SET over an existing key replaces it.')
def set_twice(x):
    s = x.client()
    s.set('k', 'first')
    s.set('k', 'second')
    return outcome(lambda: s.get('k'))


@case('Key in UTF-8 (the length counts bytes), value with NUL and all byte values.')
def binary(x):
    s = x.client()
    s.set('schl\u00fcssel-\u9375-\U0001f511', bytes(range(256)))
    return outcome(lambda: s.get('schl\u00fcssel-\u9375-\U0001f511'))


@case('5,000-byte value: the client flushes its buffer whenever it holds 1,440 bytes or more after a field, so the '
      'header and value of one request can arrive in several segments.')
def set_5000(x):
    s = x.client()
    s.set('k', bytes(i & 255 for i in range(5000)))
    return 'len %d' % len(s.get('k'))


@case('GET of a missing key with a 0.3 s store timeout: WAIT, CANCEL_WAIT, answer WAIT_CANCELED; no GET is sent.', short=True)
def get_missing_timeout(x):
    s = x.client(timeout=10)
    s.set_timeout(sec(0.3))
    r = outcome(lambda: s.get('missing'))
    s.set_timeout(sec(10))
    s.set('after', '1')
    return r + ' | then get(after) = ' + outcome(lambda: s.get('after'))


@case('GET of a missing key which another connection sets 0.2 s later (conn 1).')
def get_woken_by_set(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.set('k', 'late'))
    t.start()
    r = outcome(lambda: a.get('k'))
    t.join()
    return r


@case('ADD on a missing key starts from 0; the value is kept as decimal text.', short=True)
def add(x):
    s = x.client()
    r = [s.add('c', 5), s.add('c', -7), s.add('c', 0)]
    return repr(r) + ' get = ' + outcome(lambda: s.get('c'))


@case('ADD on text set by SET: "41" is a number to it.')
def add_on_text(x):
    s = x.client()
    s.set('c', '41')
    return outcome(lambda: s.add('c', 1)) + ' get = ' + outcome(lambda: s.get('c'))


@case('ADD on text that only starts as a number: leading blanks and a trailing tail are ignored, the result replaces it all.')
def add_on_prefix_number(x):
    s = x.client()
    s.set('c', ' +12abc')
    return outcome(lambda: s.add('c', 1)) + ' get = ' + outcome(lambda: s.get('c'))


@case('ADD on a value that is no number: the server drops the connection without an answer.')
def add_on_non_number(x):
    s = x.client()
    s.set('c', 'abc')
    return outcome(lambda: s.add('c', 1))


@case('ADD on an empty value: as on a non-number, the connection is dropped.')
def add_on_empty_value(x):
    s = x.client()
    s.set('c', '')
    return outcome(lambda: s.add('c', 1))


@case('ADD past 2^63-1 wraps around.')
def add_overflow(x):
    s = x.client()
    s.set('c', '9223372036854775807')
    return outcome(lambda: s.add('c', 1)) + ' get = ' + outcome(lambda: s.get('c'))


@case('ADD on a text beyond the int64 range: the connection is dropped.')
def add_on_out_of_range(x):
    s = x.client()
    s.set('c', '9223372036854775808')
    return outcome(lambda: s.add('c', 1))


@case('COMPARE_SET of a missing key with empty expectation: created, the answer is the new value.', short=True)
def compare_set_missing_empty(x):
    s = x.client()
    return outcome(lambda: s.compare_set('k', '', 'new')) + ' keys %d' % s.num_keys()


@case('COMPARE_SET of a missing key with an expectation: nothing is stored and the expectation is echoed.')
def compare_set_missing_nonempty(x):
    s = x.client()
    return outcome(lambda: s.compare_set('k', 'exp', 'new')) + ' check ' + outcome(lambda: s.check(['k']))


@case('COMPARE_SET that matches.')
def compare_set_match(x):
    s = x.client()
    s.set('k', 'old')
    return outcome(lambda: s.compare_set('k', 'old', 'new')) + ' get ' + outcome(lambda: s.get('k'))


@case('COMPARE_SET that does not match: the answer is the stored value.')
def compare_set_mismatch(x):
    s = x.client()
    s.set('k', 'old')
    return outcome(lambda: s.compare_set('k', 'other', 'new')) + ' get ' + outcome(lambda: s.get('k'))


@case('COMPARE_SET with empty expectation on an existing key whose value is not empty: mismatch.')
def compare_set_empty_expected_existing(x):
    s = x.client()
    s.set('k', 'old')
    return outcome(lambda: s.compare_set('k', '', 'new'))


@case('COMPARE_SET creates a key that conn 0 waits for. The libuv server wakes the waiter; the legacy server does not, '
      'so the waiter times out (1 s).')
def compare_set_wakes_waiter(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.compare_set('k', '', 'made'))
    t.start()
    r = outcome(lambda: a.wait(['k'], sec(1)))
    t.join()
    return r


@case('CHECK: all keys there, one missing, none of them.', short=True, has='check')
def check(x):
    s = x.client()
    s.set('a', '1')
    s.set('b', '2')
    return repr([s.check(['a']), s.check(['a', 'b']), s.check(['a', 'nope']), s.check(['nope'])])


@case('CHECK of an empty list is true.', has='check')
def check_empty_list(x):
    s = x.client()
    return outcome(lambda: s.check([]))


@case('WAIT of several keys, all there.', short=True)
def wait_ready(x):
    s = x.client()
    s.set('a', '1')
    s.set('b', '2')
    return outcome(lambda: s.wait(['a', 'b'], sec(5)))


@case('WAIT of an empty list is answered at once.')
def wait_empty_list(x):
    s = x.client()
    return outcome(lambda: s.wait([], sec(5)))


@case('WAIT of three keys, one there, set one after another by conn 1: one answer after the last.', short=True)
def wait_multi_woken(x):
    a, b = x.client(), x.client()
    b.set('k1', '1')

    def later():
        for k in ('k2', 'k3'):
            time.sleep(0.15)
            b.set(k, '1')
    t = threading.Thread(target=later)
    t.start()
    r = outcome(lambda: a.wait(['k1', 'k2', 'k3'], sec(5)))
    t.join()
    return r


@case('WAIT that lists the same missing key twice.')
def wait_duplicate_key(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.set('k', '1'))
    t.start()
    r = outcome(lambda: a.wait(['k', 'k'], sec(2)))
    t.join()
    return r


@case('WAIT that times out after 0.3 s, then the same connection goes on with ADD.', short=True)
def wait_timeout(x):
    s = x.client()
    s.add('n', 1)
    r = outcome(lambda: s.wait(['never'], sec(0.3)))
    return r + ' | add ' + outcome(lambda: s.add('n', 1))


@case('A key awaited by conn 0 is added by conn 1 (ADD wakes waiters).')
def wait_woken_by_add(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.add('k', 3))
    t.start()
    r = outcome(lambda: a.wait(['k'], sec(5)))
    t.join()
    return r


@case('A key awaited by conn 0 is appended to by conn 1 (APPEND wakes waiters).', has='append')
def wait_woken_by_append(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.append('k', 'x'))
    t.start()
    r = outcome(lambda: a.wait(['k'], sec(5)))
    t.join()
    return r


@case('A key awaited by conn 0 is made by MULTI_SET on conn 1.', has='multi_set')
def wait_woken_by_multi_set(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.multi_set(['j', 'k'], ['1', '2']))
    t.start()
    r = outcome(lambda: a.wait(['k', 'j'], sec(5)))
    t.join()
    return r


@case('A key is made and deleted while a waiter waits for it and another one: the deletion is not counted back, '
      'so the waiter is woken when the other key comes.')
def wait_key_deleted_meanwhile(x):
    a, b = x.client(), x.client()

    def later():
        time.sleep(0.1)
        b.set('k1', '1')
        b.delete_key('k1')
        time.sleep(0.1)
        b.set('k2', '1')
    t = threading.Thread(target=later)
    t.start()
    r = outcome(lambda: a.wait(['k1', 'k2'], sec(2)))
    t.join()
    return r + ' check(k1) ' + outcome(lambda: a.check(['k1']))


@case('DELETE_KEY of a key that is there, then of one that is not.', short=True)
def delete_key(x):
    s = x.client()
    s.set('k', '1')
    return repr([s.delete_key('k'), s.delete_key('k')])


@case('GETNUMKEYS counts every key, the bare "init/" too; queues do not count.', short=True)
def num_keys(x):
    s = x.client(world_size=1, wait=True)
    s.set('a', '1')
    s.set('b', '1')
    return outcome(lambda: s.num_keys())


@case('APPEND has no answer; on a missing key it is a SET.', short=True, has='append')
def append(x):
    s = x.client()
    s.append('k', 'ab')
    s.append('k', 'cd')
    s.append('k', '')
    return outcome(lambda: s.get('k'))


@case('MULTI_SET (no answer), MULTI_GET (a WAIT of all keys first).', short=True, has='multi_set')
def multi_set_get(x):
    s = x.client()
    s.multi_set(['a', 'b', 'c'], ['1', '', '333'])
    return outcome(lambda: s.multi_get(['c', 'a', 'b', 'a']))


@case('MULTI_SET and MULTI_GET of nothing.', has='multi_set')
def multi_empty(x):
    s = x.client()
    s.multi_set([], [])
    return outcome(lambda: s.multi_get([]))


@case('MULTI_GET with one key missing: WAIT, CANCEL_WAIT, an exception; no MULTI_GET is sent.', has='multi_get')
def multi_get_missing(x):
    s = x.client()
    s.set('a', '1')
    s.set_timeout(sec(0.3))
    return outcome(lambda: s.multi_get(['a', 'nope']))


@case('QUEUE_PUSH has no answer; QUEUE_POP answers int64 length before the pop, then the value; first in, first out.',
      short=True, has='queue_push', uvonly=True)
def queue(x):
    s = x.client()
    s.queue_push('q', 'one')
    s.queue_push('q', 'two')
    return repr([s.queue_len('q'), s.queue_pop('q'), s.queue_pop('q', False), s.queue_len('q'), s.num_keys(), s.check(['q'])])


@case('QUEUE_POP without blocking on an empty and on an unknown queue: int64 0 and nothing else.', has='queue_push', uvonly=True)
def queue_pop_empty(x):
    s = x.client()
    return outcome(lambda: s.queue_pop('q', False)) + ' | len ' + outcome(lambda: s.queue_len('q'))


@case('Blocking QUEUE_POP: WAIT of the queue key, woken by a push on conn 1, then QUEUE_POP.', has='queue_push', uvonly=True)
def queue_pop_blocking(x):
    a, b = x.client(), x.client()
    t = threading.Timer(0.2, lambda: b.queue_push('q', 'item'))
    t.start()
    r = outcome(lambda: a.queue_pop('q'))
    t.join()
    return r


@case('Two blocking QUEUE_POPs (conn 0, conn 1), pushes on conn 2: each push wakes one waiter.', has='queue_push', uvonly=True)
def queue_two_waiters(x):
    a, b, c = x.client(), x.client(), x.client()
    got = {}
    ts = []
    for i, s in enumerate((a, b)):
        t = threading.Thread(target=lambda i=i, s=s: got.__setitem__(i, outcome(lambda: s.queue_pop('q'))))
        t.start()
        ts.append(t)
        time.sleep(0.15)
    for v in ('first', 'second'):
        c.queue_push('q', v)
        time.sleep(0.15)
    for t in ts:
        t.join()
    return repr(sorted(got.items()))


@case('Queue calls of a client made with use_libuv=False are refused by the client itself: nothing is sent.', has='queue_push')
def queue_refused_by_legacy_client(x):
    if x.uv:
        return None
    s = x.client()
    return outcome(lambda: s.queue_push('q', 'v'))


@case('LIST_KEYS: int64 count, then each key as it lies in the store ("/" and all, "init/" too) in no order; '
      'the client drops keys without "/" in front and cuts the "/" off the others.', short=True, has='list_keys')
def list_keys(x):
    s = x.client(world_size=1, wait=True)
    s.set('only', '1')
    return outcome(lambda: s.list_keys())


@case('LIST_KEYS of an empty store.', has='list_keys')
def list_keys_empty(x):
    s = x.client()
    return outcome(lambda: s.list_keys())


@case('BARRIER of two: the first is answered when the second comes; the counter stays in the store as text "2".',
      short=True, has='barrier')
def barrier(x):
    a, b = x.client(), x.client()
    t = threading.Thread(target=lambda: (time.sleep(0.2), b.barrier('bar', 2)))
    t.start()
    r = outcome(lambda: a.barrier('bar', 2))
    t.join()
    return r + ' counter ' + outcome(lambda: a.get('bar'))


@case('BARRIER that times out after 0.3 s: CANCEL_WAIT; the count of 1 stays behind.', has='barrier')
def barrier_timeout(x):
    s = x.client()
    r = outcome(lambda: s.barrier('bar', 2, sec(0.3)))
    return r + ' counter ' + outcome(lambda: s.get('bar'))


@case('BARRIER of world size 1, twice: at once each time, counter "2".', has='barrier')
def barrier_of_one(x):
    s = x.client()
    s.barrier('bar', 1)
    s.barrier('bar', 1)
    return outcome(lambda: s.get('bar'))


@case('BARRIER through a PrefixStore is not op 18 but the generic form of class Store.', has='barrier')
def prefix_barrier(x):
    s = x.client()
    p = dist.PrefixStore('pre', s)
    return outcome(lambda: p.barrier('bar', 1, sec(2)))


@case('PrefixStore "pre" makes key "k" into "pre/k", and TCPStore that into "/pre/k"; nested: "/outer/inner/k" has the '
      'outermost PrefixStore last.', short=True)
def prefix_store(x):
    s = x.client()
    p = dist.PrefixStore('pre', s)
    q = dist.PrefixStore('inner', dist.PrefixStore('outer', s))
    p.set('k', '1')
    q.set('k', '2')
    return repr([p.get('k'), q.get('k'), s.get('outer/inner/k'), p.add('n', 2), p.wait(['k', 'n']), p.delete_key('k'), p.num_keys()])


@case('list_keys of a PrefixStore is the whole store again, keys of other prefixes filtered by the client.', has='list_keys')
def prefix_list_keys(x):
    s = x.client()
    p = dist.PrefixStore('pre', s)
    p.set('k', '1')
    s.set('other', '1')
    return outcome(lambda: p.list_keys())


@case('clone() opens a connection of its own (conn 1) with a handshake of its own.', has='clone')
def clone(x):
    s = x.client()
    c = s.clone()
    c.set('k', '1')
    return outcome(lambda: s.get('k'))


@case('The client goes away while it waits: it just closes its socket.')
def client_closes(x):
    s = x.client()
    s.set('k', '1')
    del s
    time.sleep(0.2)
    return 'closed'


@case('The server goes away while conn 0 waits: the client sees end of file, raises DistNetworkError and does not reconnect.')
def server_shutdown(x):
    s = x.client()
    srv = x.srv

    def stop():
        time.sleep(0.3)
        x.srv = None
    del srv
    t = threading.Thread(target=stop)
    t.start()
    r = outcome(lambda: s.get('never'))
    t.join()
    return r + ' | next call: ' + outcome(lambda: s.add('n', 1))

# ---------------------------------------------------------------------------------------------- raw cases
def u64(n):
    return struct.pack('<Q', n)


def vec(b):
    return u64(len(b)) + b


MAGIC = struct.pack('<I', 0x3C85F7CE)
VALIDATE = b'\x00' + MAGIC
HELLO = VALIDATE + b'\x0d' + struct.pack('<I', 0x01020304)


def req(op, body=b''):
    return bytes([OPS_C.index(op)]) + body


def rset(k, v):
    return req('SET', vec(k) + vec(v))


def rkeys(op, *ks):
    return req(op, u64(len(ks)) + b''.join(vec(k) for k in ks))


# name, [step...], note. A step is bytes to send, or a float: seconds to listen.
RAW = [
    ('raw_pipelined', [HELLO + rset(b'/a', b'1') + rkeys('WAIT', b'/a') + req('GET', vec(b'/a')) + req('ADD', vec(b'/n') + struct.pack('<q', 4)) + req('GETNUMKEYS'), 0.5],
     'Many requests in one segment: answered in order.'),
    ('raw_byte_by_byte', [VALIDATE, 0.15] + [bytes([b]) for b in b'\x0d' + struct.pack('<I', 7) + rset(b'/a', b'xyz') + req('GET', vec(b'/a'))] + [0.5],
     'Requests a byte at a time after a whole VALIDATE.'),
    ('raw_validate_split', [VALIDATE[:1], 0.15, VALIDATE[1:] + b'\x0d' + struct.pack('<I', 7), 0.4],
     'VALIDATE cut after its op byte. The libuv server closes the connection: its "not validated yet" mark is spent on the first segment.'),
    ('raw_validate_split_magic', [VALIDATE[:3], 0.15, VALIDATE[3:] + b'\x0d' + struct.pack('<I', 7), 0.4],
     'VALIDATE cut inside its magic number.'),
    ('raw_validate_bad_magic', [b'\x00\xde\xad\xbe\xef', 0.3], 'VALIDATE with a wrong magic number, and nothing more.'),
    ('raw_validate_bad_magic_then_ping', [b'\x00\xde\xad\xbe\xef', 0.2, b'\x0d' + struct.pack('<I', 7), 0.4], 'VALIDATE with a wrong magic number, then PING.'),
    ('raw_no_validate', [b'\x0d' + struct.pack('<I', 7), 0.4], 'PING as the first request of a connection.'),
    ('raw_no_validate_twice', [b'\x0d' + struct.pack('<I', 7), 0.2, b'\x0d' + struct.pack('<I', 8), 0.4],
     'PING as the first request, then PING again in a second segment. The libuv server ignores the first segment, then takes up both: VALIDATE is no gate there.'),
    ('raw_no_validate_same_segment', [b'\x0d' + struct.pack('<I', 7) + b'\x0d' + struct.pack('<I', 8), 0.4], 'Two PINGs in the first segment.'),
    ('raw_validate_again', [HELLO, 0.2, VALIDATE, 0.4], 'A second VALIDATE on a validated connection is an unknown op.'),
    ('raw_ping_only', [HELLO, 0.3], 'The handshake of torch >= 2.5.'),
    ('raw_unknown_op', [HELLO, 0.2, b'\x7f', 0.4], 'Op 127.'),
    ('raw_op_19', [HELLO, 0.2, b'\x13', 0.4], 'Op 19, the first number not in use.'),
    ('raw_http', [b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 0.4], 'A web request.'),
    ('raw_key_8192', [HELLO, 0.1, rset(b'/' + b'k' * 8191, b'v') + req('GETNUMKEYS'), 0.5], 'A key of 8,192 bytes: the longest the libuv server takes.'),
    ('raw_key_8193', [HELLO, 0.1, rset(b'/' + b'k' * 8192, b'v') + req('GETNUMKEYS'), 0.5], 'A key of 8,193 bytes.'),
    ('raw_key_length_huge', [HELLO, 0.1, b'\x01' + u64(1 << 62), 0.4], 'A key length of 2^62.'),
    ('raw_key_length_max', [HELLO, 0.1, b'\x01' + u64((1 << 64) - 1), 0.4], 'A key length of 2^64-1.'),
    ('raw_value_length_8m', [HELLO, 0.1, b'\x01' + vec(b'/k') + u64(8 * 1024 * 1024), 0.4], 'A value length of 8 MiB, the most the libuv server takes, and no value: the server waits for it.'),
    ('raw_value_length_8m_1', [HELLO, 0.1, b'\x01' + vec(b'/k') + u64(8 * 1024 * 1024 + 1), 0.4], 'A value length of 8 MiB + 1.'),
    ('raw_key_count_131073', [HELLO, 0.1, req('WAIT', u64(131073)), 0.4], 'WAIT with one key more than the libuv limit of 131,072.'),
    ('raw_key_count_huge', [HELLO, 0.1, req('CHECK', u64(1 << 62)), 0.4], 'CHECK with 2^62 keys.'),
    ('raw_truncated', [HELLO, 0.1, rset(b'/k', b'0123456789')[:-4], 0.4], 'A SET that stops 4 bytes early, the connection stays open.'),
    ('raw_truncated_closed', [HELLO, 0.1, rset(b'/k', b'0123456789')[:-4], None, 0.4], 'A SET that stops 4 bytes early, then the client closes its sending half.'),
    ('raw_half_close', [HELLO + rset(b'/k', b'1') + req('GET', vec(b'/k')), None, 0.4], 'Requests, then end of file from the client: the answer still comes, then the server closes.'),
    ('raw_get_missing', [HELLO, 0.1, req('GET', vec(b'/missing')) + req('GETNUMKEYS'), 0.4],
     'GET without a WAIT before it, of a missing key: libuv answers an empty value, legacy drops the connection.'),
    ('raw_multi_get_missing', [HELLO, 0.1, rset(b'/a', b'1') + rkeys('MULTI_GET', b'/a', b'/missing') + req('GETNUMKEYS'), 0.4],
     'MULTI_GET without a WAIT before it, one key missing.'),
    ('raw_wait_then_others', [HELLO, 0.1, rkeys('WAIT', b'/w') + req('ADD', vec(b'/n') + struct.pack('<q', 1)), 0.3, req('GETNUMKEYS'), 0.2, rset(b'/w', b'1') + req('GETNUMKEYS'), 0.4],
     'Requests behind an unanswered WAIT on the same connection are served at once; the WAIT is answered when its key comes.'),
    ('raw_wait_own_set', [HELLO, 0.1, rkeys('WAIT', b'/w') + rset(b'/w', b'1'), 0.4], 'WAIT, then SET of that key on the same connection: woken.'),
    ('raw_two_waits', [HELLO, 0.1, rkeys('WAIT', b'/w1'), 0.1, rkeys('WAIT', b'/w2'), 0.1, rset(b'/w1', b'1'), 0.2, rset(b'/w2', b'1'), 0.4],
     'A second WAIT while the first is open: there is one count per connection, so the first of the two keys answers and the second key answers nothing.'),
    ('raw_two_waits_first_two_keys', [HELLO, 0.1, rkeys('WAIT', b'/w1', b'/w2'), 0.1, rkeys('WAIT', b'/w3'), 0.1, rset(b'/w1', b'1'), 0.2, rset(b'/w2', b'1'), 0.2, rset(b'/w3', b'1'), 0.4],
     'As raw_two_waits, the first with two keys.'),
    ('raw_cancel_without_wait', [HELLO, 0.1, req('CANCEL_WAIT'), 0.4], 'CANCEL_WAIT with no WAIT open: WAIT_CANCELED all the same.'),
    ('raw_cancel_wait', [HELLO, 0.1, rkeys('WAIT', b'/w'), 0.2, req('CANCEL_WAIT'), 0.2, rset(b'/w', b'1') + req('GETNUMKEYS'), 0.4], 'A cancelled WAIT is not answered later.'),
    ('raw_wait_answer_crosses_cancel', [HELLO, 0.1, rkeys('WAIT', b'/w') + rset(b'/w', b'1') + req('CANCEL_WAIT'), 0.4], 'The answer crosses the cancel: STOP_WAITING, then WAIT_CANCELED.'),
    ('raw_wait_no_keys', [HELLO, 0.1, req('WAIT', u64(0)) + req('CHECK', u64(0)) + req('GETNUMKEYS'), 0.4], 'WAIT and CHECK with no keys.'),
    ('raw_multi_no_keys', [HELLO, 0.1, req('MULTI_GET', u64(0)) + req('MULTI_SET', u64(0)) + req('GETNUMKEYS'), 0.4], 'MULTI_GET and MULTI_SET with no keys: no answer to either.'),
    ('raw_multi_set_truncated', [HELLO, 0.1, req('MULTI_SET', u64(2) + vec(b'/a') + vec(b'1') + vec(b'/b')), 0.3], 'A MULTI_SET that stops in the middle: the pairs that came whole are in the store already.'),
    ('raw_empty_key', [HELLO, 0.1, rset(b'', b'v') + req('GET', vec(b'')), 0.4], 'A key of zero length.'),
    ('raw_delete_wakes_nothing', [HELLO, 0.1, rset(b'/k', b'1') + req('DELETE_KEY', vec(b'/k')) + req('DELETE_KEY', vec(b'/k')), 0.4], 'DELETE_KEY: int64 1, then int64 0.'),
    ('raw_queue', [HELLO, 0.1, req('QUEUE_PUSH', vec(b'/q') + vec(b'item')) + req('QUEUE_LEN', vec(b'/q')) + req('QUEUE_POP', vec(b'/q')) + req('QUEUE_POP', vec(b'/q')) + req('GETNUMKEYS'), 0.4],
     'Queues: the legacy server knows none of the three ops and drops the connection.'),
    ('raw_queue_wait_mixed', [HELLO, 0.1, req('QUEUE_PUSH', vec(b'/q') + vec(b'item')) + rkeys('WAIT', b'/q', b'/other'), 0.2, rset(b'/other', b'1'), 0.3],
     'WAIT of a filled queue and a missing key: the libuv server counts the queue as still to come, so the missing key alone does not answer.'),
    ('raw_compare_set_false_wake', [HELLO, 0.1, rkeys('WAIT', b'/w') + req('COMPARE_SET', vec(b'/w') + vec(b'exp') + vec(b'new')), 0.2, rkeys('CHECK', b'/w'), 0.3],
     'WAIT of a missing key, then a COMPARE_SET of it that stores nothing: the libuv server answers the WAIT (00) although the key is still missing (CHECK: 01).'),
    ('raw_queue_stale_waiter', [HELLO, 0.1, rkeys('WAIT', b'/q') + req('QUEUE_PUSH', vec(b'/q') + vec(b'a')), 0.2, req('QUEUE_POP', vec(b'/q')), 0.2, rkeys('WAIT', b'/other'), 0.2, req('QUEUE_PUSH', vec(b'/q') + vec(b'b')), 0.3],
     'A waiter woken by QUEUE_PUSH stays on the list of that queue in the libuv server, so the next push answers the WAIT of another key (the last 00): a false wake-up.'),
    ('raw_barrier', [HELLO, 0.1, req('BARRIER', vec(b'/b') + struct.pack('<q', 1)) + req('BARRIER', vec(b'/b') + struct.pack('<q', 3)), 0.2, req('BARRIER', vec(b'/b') + struct.pack('<q', 3)), 0.3],
     'BARRIER counts on one connection: 1 of 1 answers, 2 of 3 waits, 3 of 3 answers both: two bytes.'),
    ('raw_add_min', [HELLO, 0.1, req('ADD', vec(b'/n') + struct.pack('<q', -(1 << 63))) + req('GET', vec(b'/n')), 0.4], 'ADD of -2^63.'),
]


def serve_main(uv):
    import torch.distributed as d
    kw = {} if uv == 'none' else {'use_libuv': uv == 'uv'}
    s = d.TCPStore('127.0.0.1', 0, None, True, sec(300), wait_for_workers=False, **kw)
    print(s.port, flush=True)
    sys.stdin.read()
    os._exit(0)


class Served:
    def __init__(self, uv):
        self.p = subprocess.Popen([sys.executable, '-W', 'ignore', __file__, '--serve', uv], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        try:
            self.p.wait(5)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()


def alive(port, hello=HELLO):
    try:
        s = socket.create_connection(('127.0.0.1', port), timeout=1)
        s.settimeout(1)
        s.sendall(hello)
        ok = s.recv(64) == hello[-4:]
        s.close()
        return ok
    except OSError:
        return False


def run_raw(steps, port):
    """-> events, closed by the server, server alive for others meanwhile"""
    s = socket.create_connection(('127.0.0.1', port), timeout=2)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ev, closed = [], False

    def put(d, b):
        if ev and ev[-1][1] == d and ev[-1][2] and b:
            ev[-1][2] += b.hex()
        else:
            ev.append([0, d, b.hex()])
    bursts = []
    for st in steps:
        if isinstance(st, bytes):
            try:
                s.sendall(st)
                put('c', st)
                bursts.append(st.hex())
                if len(steps) > 12:
                    time.sleep(0.003)
            except OSError:
                closed = True
        elif st is None:
            s.shutdown(socket.SHUT_WR)
            put('c', b'')
        else:
            end = time.monotonic() + st
            while not closed:
                left = end - time.monotonic()
                if left <= 0:
                    break
                if select.select([s], [], [], left)[0]:
                    try:
                        b = s.recv(1 << 16)
                    except OSError:
                        b = b''
                    if not b:
                        closed = True
                        put('s', b'')
                    else:
                        put('s', b)
    others = alive(port)
    s.close()
    return ev, closed, others, bursts

# ---------------------------------------------------------------------------------------------- FileStore
def filestore_cases(out):
    d = tempfile.mkdtemp()
    path = os.path.join(d, 'store')
    snaps, log = [], []

    def snap(op, res=None):
        data = open(path, 'rb').read() if os.path.exists(path) else None
        prev = snaps[-1] if snaps else b''
        log.append({'op': op, 'result': res, 'appended_hex': None if data is None else data[len(prev or b''):].hex(),
                    'file_size': None if data is None else len(data)})
        snaps.append(data)
    a = dist.FileStore(path, 2)
    snap('A = FileStore(path, 2)')
    b = dist.FileStore(path, 2)
    snap('B = FileStore(path, 2)')
    a.set('k', 'value')
    snap("A.set('k', 'value')")
    snap("B.get('k')", outcome(lambda: b.get('k')))
    snap("B.add('n', 5)", outcome(lambda: b.add('n', 5)))
    snap("A.add('n', -2)", outcome(lambda: a.add('n', -2)))
    snap("A.compare_set('c', '', 'x')", outcome(lambda: a.compare_set('c', '', 'x')))
    snap("A.compare_set('c', 'wrong', 'y')", outcome(lambda: a.compare_set('c', 'wrong', 'y')))
    snap("A.compare_set('none', 'e', 'y')", outcome(lambda: a.compare_set('none', 'e', 'y')))
    a.set('bin', bytes([0, 255, 10]))
    snap("A.set('bin', b'\\x00\\xff\\n')")
    a.set('empty', '')
    snap("A.set('empty', '')")
    snap("A.delete_key('k')", outcome(lambda: a.delete_key('k')))
    snap("A.delete_key('never')", outcome(lambda: a.delete_key('never')))
    snap("B.check(['k'])", outcome(lambda: b.check(['k'])))
    snap("B.check(['n'])", outcome(lambda: b.check(['n'])))
    snap("B.num_keys()", outcome(lambda: b.num_keys()))
    if hasattr(b, 'list_keys'):
        snap("sorted(B.list_keys())", outcome(lambda: sorted(b.list_keys())))
    snap("B.wait(['late'], 1 s)", outcome(lambda: b.wait(['late'], sec(1))))
    p = dist.PrefixStore('pre', a)
    p.set('k', '1')
    snap("PrefixStore('pre', A).set('k', '1')")
    del p
    del b
    snap('del B')
    whole = snaps[-1]
    del a
    snap('del A')
    v = {'name': 'filestore', 'torch': torch.__version__, 'note': 'One file shared by two FileStore objects (world size 2): what '
         'each call appended to the file. The last line has no file: the second destructor removed it.',
         'ops': log, 'file_hex_before_the_last_destructor': whole.hex()}
    json.dump(v, open(os.path.join(out, 'filestore.json'), 'w'), indent=1)

# ---------------------------------------------------------------------------------------------- main
def write(out, name, v):
    with open(os.path.join(out, name + '.json'), 'w') as f:
        json.dump(v, f, indent=1)
        f.write('\n')


def streams(events):
    """What each side of each connection sent, without the cuts between bursts and the order between connections."""
    r = {}
    for conn, d, h in events:
        r[(conn, d)] = r.get((conn, d), '') + (h or '|EOF')
    return r


# Why a replay of the client's bytes need not give the server's bytes; every other vector is "exact".
FREE = {'server_shutdown': 'needs the server to go away',
        'master_wait_for_workers': 'a joiner that is not on the record takes part', 'list_keys': 'the order of the keys is free',
        'prefix_list_keys': 'the order of the keys is free',
        'wait_key_deleted_meanwhile': 'whether the deletion is counted back is free',
        'raw_two_waits': 'a second WAIT before the first is answered or cancelled: no torch >= 2.1 client does it',
        'raw_two_waits_first_two_keys': 'as raw_two_waits',
        'raw_compare_set_false_wake': 'the false wake-up is a fault of the libuv server',
        'raw_queue_stale_waiter': 'the last STOP_WAITING is a fault of the libuv server',
        'raw_queue_wait_mixed': 'that the queue counts as missing is a fault of the libuv server',
        'raw_multi_set_truncated': 'the request never ends',
        'raw_truncated': 'the request never ends', 'raw_truncated_closed': 'malformed',
        'raw_value_length_8m': 'the request never ends', 'raw_value_length_8m_1': 'limits are free',
        'raw_key_8193': 'limits are free', 'raw_key_count_131073': 'limits are free',
        'raw_key_count_huge': 'malformed', 'raw_key_length_huge': 'malformed', 'raw_key_length_max': 'malformed',
        'raw_http': 'malformed', 'raw_op_19': 'malformed', 'raw_unknown_op': 'malformed',
        'raw_validate_again': 'malformed', 'raw_validate_bad_magic': 'malformed',
        'raw_validate_bad_magic_then_ping': 'malformed', 'raw_no_validate': 'malformed',
        'raw_no_validate_twice': 'malformed', 'raw_no_validate_same_segment': 'malformed',
        'raw_validate_split': 'the libuv server is at fault', 'raw_validate_split_magic': 'the libuv server is at fault'}


def run_case(f, uv):
    x = Ctx(uv)
    res = f(x)
    if res is None:
        if x.proxy:
            x.proxy.close()
        return None
    time.sleep(0.05)
    ev = x.proxy.events()
    x.proxy.close()
    return res, ev


def dialect_of(ver):
    a, b = (int(i) for i in ver.split('+')[0].split('.')[:2])
    if (a, b) >= (2, 2):
        return 'C'
    if (a, b) == (2, 1):
        return 'B'
    return 'A'


def main():
    global dist, torch
    ap = argparse.ArgumentParser()
    ap.add_argument('--out')
    ap.add_argument('--versions', action='store_true')
    ap.add_argument('--only')
    ap.add_argument('--list', action='store_true')
    a = ap.parse_args()
    if a.list:
        print('\n'.join([c[0] for c in CASES] + [r[0] for r in RAW] + ['filestore']))
        return
    import torch
    import torch.distributed as dist
    ver = torch.__version__
    dia = dialect_of(ver)
    has_uv = 'use_libuv' in (dist.TCPStore.__init__.__doc__ or '')
    has_fd = 'master_listen_fd' in (dist.TCPStore.__init__.__doc__ or '')
    os.makedirs(a.out, exist_ok=True)
    backs = [('libuv', True), ('legacy', False)] if has_uv else [('legacy', None)]
    if has_uv:
        try:
            dist.TCPStore('127.0.0.1', 0, None, True, sec(5), wait_for_workers=False, use_libuv=True)
        except RuntimeError:  # built without it
            backs = [('legacy', False)]
    bad = 0
    collected = []
    for name, f, note, only, has, uvonly in CASES:
        if a.only and a.only != name or a.versions and name not in SHORT:
            continue
        if has == 'master_listen_fd':
            if not has_fd:
                continue
        elif has and not hasattr(dist.TCPStore, has):
            continue
        got = []
        for bname, uv in backs:
            if uvonly and bname != 'libuv':
                continue
            r = run_case(f, uv)
            if r is not None:
                got.append((bname,) + r)
        if len(got) == 2 and got[0][1] == got[1][1] and streams(got[0][2]) == streams(got[1][2]):
            got = [('both',) + got[0][1:]]
        for bname, res, ev in got:
            lines, rest = describe(ev, dia)
            if rest:
                bad += 1
                print('UNDECODED', name, bname, rest)
            v = {'name': name, 'torch': ver, 'backend': bname, 'dialect': dia, 'note': note,
                 'client_hex': [h for c, d, h in ev if c == 0 and d == 'c' and h],
                 'server_hex': [h for c, d, h in ev if c == 0 and d == 's' and h],
                 'events': ev, 'decoded': lines, 'result': res}
            v['replay'] = FREE.get(name, 'exact')
            if a.versions:
                collected.append(v)
            else:
                write(a.out, name if bname == 'both' else '%s.%s' % (name, bname), v)
            print('captured', name, bname, res[:100])
    if a.versions:
        write(a.out, 'torch-' + ver.split('+')[0], {'torch': ver, 'dialect': dia, 'cases': collected})
        return
    if not a.only or a.only.startswith('raw'):
        for name, steps, note in RAW:
            if a.only and a.only != name and a.only != 'raw':
                continue
            got = []
            for bname, uv in backs:
                sv = Served('uv' if uv else 'legacy')
                ev, closed, others, bursts = run_raw(steps, sv.port)
                ok = alive(sv.port)
                died = sv.p.poll() is not None
                sv.close()
                got.append((bname, ev, closed, others, ok, died))
            if len(got) == 2 and got[0][1:] == got[1][1:]:
                got = [('both',) + got[0][1:]]
            for bname, ev, closed, others, ok, died in got:
                lines, rest = describe(ev, dia)
                v = {'name': name, 'torch': ver, 'backend': bname, 'dialect': dia, 'note': note,
                     'client_hex': [s.hex() for s in steps if isinstance(s, bytes)],
                     'server_hex': [h for c, d, h in ev if d == 's' and h],
                     'events': ev, 'decoded': lines, 'server_closed_connection': closed,
                     'replay': FREE.get(name, 'exact'), 'others_served_meanwhile': others, 'others_served_afterwards': ok, 'server_process_died': died}
                write(a.out, name if bname == 'both' else '%s.%s' % (name, bname), v)
                print('raw', name, bname, 'answer', v['server_hex'], 'closed', closed, 'others', others, 'after', ok, 'died', died)
    if not a.only or a.only == 'filestore':
        filestore_cases(a.out)
    print('undecoded streams:', bad)
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    if len(sys.argv) > 1 and sys.argv[1] == '--proxy':
        proxy_main(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), sys.argv[6])
    elif len(sys.argv) > 1 and sys.argv[1] == '--serve':
        serve_main(sys.argv[2])
    else:
        main()
        os._exit(0)
