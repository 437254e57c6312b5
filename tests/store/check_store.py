#!/usr/bin/env python3
"""Conformance program for a server that speaks PyTorch's TCPStore protocol.

  check_store.py HOST PORT [--backend libuv|legacy] [--only PREFIX] [--skip PREFIX[,PREFIX]] [--old-dialects]
                 [--vectors DIR] [--no-gloo] [--dns] [--list]
  check_store.py --self libuv|legacy        the same against torch's own server, started here on loopback

The server must be for this program alone: it empties the store (LIST_KEYS, DELETE_KEY) before it replays a vector.
Each case runs in a forked child with a time limit, so a server that never answers fails a case, not the run.
Prints 'ok NAME' or 'FAIL NAME: why' for each case, then 'N passed, N failed'; exits 1 if any failed.

torch asks the resolver for the name of every peer (client and server alike, the server inside its one loop), and a resolver
that is slow or drops queries then stalls whole seconds. So this program compiles a few lines of C that make getnameinfo()
answer numbers, and runs itself (and --self servers and workers) with them preloaded; --dns leaves that out.

--backend legacy   replay the vectors of torch's legacy server where the two backends differ (default: libuv)
--old-dialects     also replay what torch 1.13, 2.0 (dialect A) and 2.1 (dialect B) put on the wire, which only a
                   server that tells the dialects apart can answer
"""
import argparse, datetime, glob, json, os, random, select, shutil, signal, socket, struct, subprocess, sys, tempfile
import threading, time, uuid

os.environ.setdefault('TORCH_CPP_LOG_LEVEL', 'ERROR')
HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 25
CASES = []


def case(f):
    CASES.append((f.__name__, f, LIMIT))
    return f


def limit(n):
    def deco(f):
        CASES.append((f.__name__, f, n))
        return f
    return deco


class Fail(Exception):
    pass


def eq(got, want, what=''):
    if got != want:
        raise Fail('%sgot %.120r, wanted %.120r' % (what + ': ' if what else '', got, want))


def sec(x):
    return datetime.timedelta(seconds=x)


def uniq(tag='k'):
    return '%s-%s' % (tag, uuid.uuid4().hex[:12])


def client(timeout=15, world_size=None, wait=False):
    return dist.TCPStore(HOST, PORT, world_size, False, sec(timeout), wait_for_workers=wait, use_libuv=True)


def raises(f, *types):
    try:
        r = f()
    except types or Exception as e:
        return e
    raise Fail('no exception, result %.80r' % (r,))


def within(t0, lo, hi, what):
    d = time.monotonic() - t0
    if not lo <= d <= hi:
        raise Fail('%s took %.3f s, wanted %.2f to %.2f' % (what, d, lo, hi))


def later(delay, f):
    t = threading.Timer(delay, f)
    t.daemon = True
    t.start()
    return t

# ------------------------------------------------------------------------------------------- raw connections
OPS = {n: i for i, n in enumerate(['VALIDATE', 'SET', 'COMPARE_SET', 'GET', 'ADD', 'CHECK', 'WAIT', 'GETNUMKEYS', 'DELETE_KEY',
                                   'APPEND', 'MULTI_GET', 'MULTI_SET', 'CANCEL_WAIT', 'PING', 'QUEUE_PUSH', 'QUEUE_POP',
                                   'QUEUE_LEN', 'LIST_KEYS', 'BARRIER'])}
VALIDATE = b'\x00' + struct.pack('<I', 0x3C85F7CE)


def u64(n):
    return struct.pack('<Q', n)


def i64(n):
    return struct.pack('<q', n)


def vec(b):
    b = b.encode() if isinstance(b, str) else b
    return u64(len(b)) + b


def q(op, *parts):
    return bytes([OPS[op]]) + b''.join(parts)


def q_set(k, v):
    return q('SET', vec(k), vec(v))


def q_get(k):
    return q('GET', vec(k))


def q_keys(op, *ks):
    return q(op, u64(len(ks)), *[vec(k) for k in ks])


def ping(n):
    return q('PING', struct.pack('<I', n))


class Raw:
    def __init__(self, hello=True, timeout=5):
        self.s = socket.create_connection((HOST, PORT), timeout=timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hello:
            self.send(VALIDATE + ping(0x5EED))
            self.expect(struct.pack('<I', 0x5EED), 'handshake')

    def send(self, b):
        self.s.sendall(b)

    def recv(self, n, timeout=5):
        end, b = time.monotonic() + timeout, b''
        while len(b) < n:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.s], [], [], left)[0]:
                raise Fail('no answer in %.1f s (%d of %d bytes came: %s)' % (timeout, len(b), n, b[:32].hex()))
            try:
                c = self.s.recv(min(n - len(b), 1 << 20))
            except OSError as e:
                raise Fail('connection error: %s' % e)
            if not c:
                raise Fail('server closed the connection after %d of %d bytes (%s)' % (len(b), n, b[:32].hex()))
            b += c
        return b

    def expect(self, want, what='', timeout=5):
        eq(self.recv(len(want), timeout), want, what)

    def recv_vec(self, timeout=5):
        n, = struct.unpack('<Q', self.recv(8, timeout))
        return self.recv(n, timeout)

    def quiet(self, t, what):
        if select.select([self.s], [], [], t)[0]:
            try:
                b = self.s.recv(64)
            except OSError:
                b = b''
            raise Fail('%s: %s' % (what, 'bytes %s came' % b.hex() if b else 'the connection was closed'))

    def closed(self, t, what):
        end = time.monotonic() + t
        got = b''
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.s], [], [], left)[0]:
                raise Fail('%s: the server keeps the connection open after %.1f s%s' % (what, t, ', it sent ' + got.hex() if got else ''))
            try:
                b = self.s.recv(4096)
            except OSError:
                return got
            if not b:
                return got
            got += b

    def is_closed(self, t):
        try:
            self.closed(t, '')
            return True
        except Fail:
            return False

    def close(self):
        self.s.close()


def others_served(what, limit_s=1.0):
    """Another client does a round of requests, each of which must be answered in limit_s."""
    k = '/' + uniq('others')
    t0 = time.monotonic()
    try:
        r = Raw(hello=False, timeout=limit_s)
        r.send(VALIDATE + ping(77))
        r.expect(struct.pack('<I', 77), timeout=limit_s)
        for i in range(5):
            r.send(q_set(k, str(i)) + q_get(k))
            eq(r.recv_vec(limit_s), str(i).encode())
        r.send(q('DELETE_KEY', vec(k)))
        r.expect(i64(1), timeout=limit_s)
        r.close()
    except (Fail, OSError) as e:
        raise Fail('%s: other clients are not served (%s, %.2f s)' % (what, e, time.monotonic() - t0))

# ------------------------------------------------------------------------------------------- the real client, one by one


@case
def connect():
    t0 = time.monotonic()
    s = client()
    within(t0, 0, 3, 'connect')
    eq(s.port, PORT)


@case
def set_get():
    s, k = client(), uniq()
    s.set(k, 'value')
    eq(s.get(k), b'value')
    s.set(k, 'other')
    eq(s.get(k), b'other')


@case
def set_seen_by_others():
    a, b, k = client(), client(), uniq()
    a.set(k, 'v')
    eq(b.get(k), b'v')


@case
def empty_value():
    s, k = client(), uniq()
    s.set(k, '')
    eq(s.get(k), b'')
    eq(s.check([k]), True)


@case
def empty_key():
    s = client()
    s.set('', 'x')
    eq(s.get(''), b'x')
    eq(s.delete_key(''), True)


@case
def binary_value():
    s, k = client(), uniq()
    v = bytes(range(256)) * 3 + b'\x00\x00'
    s.set(k, v)
    eq(s.get(k), v)


@case
def unicode_key():
    s = client()
    k = uniq('schl\u00fcssel \u9375 \U0001f511 \x01\n')
    s.set(k, 'x')
    eq(s.get(k), b'x')
    eq(s.delete_key(k), True)


@case
def key_with_nul():
    a, b = client(), client()
    k = uniq()
    a.set(k + '\0a', '1')
    a.set(k + '\0b', '2')
    eq([b.get(k + '\0a'), b.get(k + '\0b')], [b'1', b'2'])


@case
def key_of_8000_bytes():
    s = client()
    k = uniq() + 'x' * 8000
    s.set(k, '1')
    eq(s.get(k), b'1')


@case
def value_around_the_client_buffer():
    s, k = client(), uniq()
    for n in (1, 1400, 1438, 1439, 1440, 1441, 2880, 4095, 4096, 4097, 65535, 65536, 65537):
        v = os.urandom(n)
        s.set(k, v)
        eq(s.get(k) == v, True, '%d bytes' % n)


@case
def value_1mib():
    s, k = client(), uniq()
    v = os.urandom(1 << 20)
    t0 = time.monotonic()
    s.set(k, v)
    eq(s.get(k) == v, True)
    within(t0, 0, 5, '1 MiB set and get')


@case
def value_8mib():
    s, k = client(), uniq()
    v = os.urandom(1 << 20) * 8
    s.set(k, v)
    eq(s.get(k) == v, True)
    s.delete_key(k)


@case
def get_blocks_until_set():
    a, b, k = client(), client(), uniq()
    later(0.3, lambda: b.set(k, 'late'))
    t0 = time.monotonic()
    eq(a.get(k), b'late')
    within(t0, 0.25, 1.5, 'get')


@case
def get_timeout_then_ops():
    s, k = client(), uniq()
    s.set_timeout(sec(0.3))
    t0 = time.monotonic()
    raises(lambda: s.get(k + 'never'))
    within(t0, 0.25, 1.5, 'get')
    s.set_timeout(sec(10))
    s.set(k, '1')
    eq(s.get(k), b'1')
    eq(s.add(k, 1), 2)


@case
def add():
    s, k = client(), uniq()
    eq([s.add(k, 5), s.add(k, -7), s.add(k, 0), s.add(k, 1 << 40)], [5, -2, -2, (1 << 40) - 2])
    eq(s.get(k), str((1 << 40) - 2).encode())


@case
def add_on_text():
    s, k = client(), uniq()
    s.set(k, '41')
    eq(s.add(k, 1), 42)
    s.set(k, ' +12abc')
    eq(s.add(k, 1), 13)
    eq(s.get(k), b'13')


@case
def add_wraps():
    s, k = client(), uniq()
    s.set(k, str((1 << 63) - 1))
    eq(s.add(k, 1), -(1 << 63))
    eq(s.get(k), str(-(1 << 63)).encode())


@case
def add_on_non_number():
    for v in ('abc', '', '9223372036854775808', '-'):
        s, o, k = client(), client(), uniq()
        s.set(k, v)
        raises(lambda: s.add(k, 1))
        eq(o.get(k), v.encode(), 'the value after a failed add')
    others_served('after add on a non-number')


@case
def compare_set():
    s, k = client(), uniq()
    eq(s.compare_set(k, 'exp', 'new'), b'exp', 'missing key, expectation')
    eq(s.check([k]), False)
    eq(s.compare_set(k, '', 'one'), b'one', 'missing key, no expectation')
    eq(s.compare_set(k, 'wrong', 'two'), b'one', 'mismatch')
    eq(s.compare_set(k, '', 'two'), b'one', 'empty expectation, key there')
    eq(s.compare_set(k, 'one', 'two'), b'two', 'match')
    eq(s.compare_set(k, 'two', ''), b'', 'to empty')
    eq(s.compare_set(k, '', 'three'), b'three', 'empty value matches empty expectation')


@case
def compare_set_that_fails_wakes_nobody():
    a, b, k = client(), client(), uniq()
    later(0.15, lambda: b.compare_set(k, 'exp', 'new'))
    later(0.6, lambda: b.set(k, 'v'))
    t0 = time.monotonic()
    eq(a.get(k), b'v')
    within(t0, 0.5, 2, 'a get of a missing key, with a compare_set of it that stores nothing')


@case
def check_keys():
    s, k = client(), uniq()
    s.set(k + 'a', '1')
    s.set(k + 'b', '')
    eq([s.check([k + 'a']), s.check([k + 'a', k + 'b']), s.check([k + 'a', k + 'c']), s.check([])], [True, True, False, True])


@case
def wait_ready():
    s, k = client(), uniq()
    s.set(k, '1')
    s.wait([k])
    s.wait([k, k], sec(2))
    s.wait([], sec(2))


@case
def wait_several():
    a, b, k = client(), client(), uniq()
    b.set(k + '1', '')
    for i, n in enumerate('234'):
        later(0.15 * (i + 1), lambda n=n: b.set(k + n, ''))
    t0 = time.monotonic()
    a.wait([k + n for n in '4123'], sec(5))
    within(t0, 0.4, 2, 'wait')


@case
def wait_same_key_twice():
    a, b, k = client(), client(), uniq()
    later(0.2, lambda: b.set(k, ''))
    a.wait([k, k, k], sec(3))
    eq(a.check([k]), True)


@case
def wait_woken_by_each_writer():
    a, b = client(), client()
    for name, f in (('set', lambda k: b.set(k, '1')), ('add', lambda k: b.add(k, 1)), ('append', lambda k: b.append(k, 'x')),
                    ('compare_set', lambda k: b.compare_set(k, '', 'v')), ('multi_set', lambda k: b.multi_set([k, k + '2'], ['1', '2']))):
        k = uniq(name)
        later(0.15, lambda: f(k))
        try:
            a.wait([k], sec(1.5))
        except Exception as e:
            raise Fail('not woken by %s: %s' % (name, str(e).splitlines()[0]))


@case
def wait_timeout_then_ops():
    s, k = client(), uniq()
    t0 = time.monotonic()
    raises(lambda: s.wait([k], sec(0.3)))
    within(t0, 0.25, 1.5, 'wait')
    eq(s.add(k + 'n', 2), 2)
    s.set(k, 'now')
    s.wait([k], sec(2))
    eq(s.get(k), b'now')


@case
def wait_timeouts_in_a_row():
    s, k = client(), uniq()
    for i in range(20):
        raises(lambda: s.wait([k, k + str(i)], sec(0.02)))
        eq(s.add(k + 'n', 1), i + 1)
    o = client()
    o.set(k, '1')
    eq(s.add(k + 'n', 1), 21)


@case
def wait_cancelled_is_forgotten():
    a, b, k = client(), client(), uniq()
    raises(lambda: a.wait([k + '1'], sec(0.1)))
    later(0.3, lambda: b.set(k + '1', '1'))
    later(0.8, lambda: b.set(k + '2', '2'))
    t0 = time.monotonic()
    a.wait([k + '2'], sec(5))
    within(t0, 0.6, 2, 'the second wait')
    eq(a.check([k + '2']), True)


@case
def wait_100_clients_on_one_key():
    k = '/' + uniq()
    rs = [Raw() for _ in range(100)]
    for r in rs:
        r.send(q_keys('WAIT', k))
    time.sleep(0.2)
    w = Raw()
    w.send(q_set(k, '1'))
    for r in rs:
        r.expect(b'\0', 'waiter')
        r.close()


@case
def waiter_goes_away():
    k = '/' + uniq()
    rs = [Raw() for _ in range(20)]
    for r in rs:
        r.send(q_keys('WAIT', k, k + 'x'))
    time.sleep(0.1)
    for r in rs[:10]:
        r.close()
    for r in rs[10:]:
        r.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        r.close()
    w = Raw()
    w.send(q_set(k, '1') + q_set(k + 'x', '1') + ping(3))
    w.expect(struct.pack('<I', 3), 'after the waiters went away')
    others_served('after waiters went away')


@case
def delete_key():
    s, k = client(), uniq()
    s.set(k, '1')
    eq([s.delete_key(k), s.delete_key(k), s.check([k])], [True, False, False])
    raises(lambda: s.wait([k], sec(0.1)))


@case
def num_keys():
    s, k = client(), uniq()
    n = s.num_keys()
    s.set(k + '1', '1')
    s.add(k + '2', 1)
    s.append(k + '3', '1')
    s.set(k + '1', '2')
    eq(s.num_keys() - n, 3)
    s.delete_key(k + '1')
    eq(s.num_keys() - n, 2)


@case
def append():
    s, k = client(), uniq()
    s.append(k, 'ab')
    s.append(k, b'\x00cd')
    s.append(k, '')
    eq(s.get(k), b'ab\x00cd')
    s.set(k, 'new')
    s.append(k, '!')
    eq(s.get(k), b'new!')


@case
def append_many():
    s, k = client(), uniq()
    for i in range(500):
        s.append(k, '%04d' % i)
    eq(s.get(k), ''.join('%04d' % i for i in range(500)).encode())


@case
def multi_set_get():
    s, k = client(), uniq()
    s.multi_set([k + 'a', k + 'b', k + 'c'], ['1', '', b'3\x003'])
    eq(s.multi_get([k + 'c', k + 'a', k + 'b', k + 'a']), [b'3\x003', b'1', b'', b'1'])
    s.multi_set([], [])
    eq(s.multi_get([]), [])


@case
def multi_2000_keys():
    s, k = client(), uniq()
    ks = [k + str(i) for i in range(2000)]
    vs = ['v%d' % i * (i % 7) for i in range(2000)]
    s.multi_set(ks, vs)
    eq(s.multi_get(ks) == [v.encode() for v in vs], True)
    eq(s.check(ks), True)
    s.wait(ks, sec(5))
    for x in ks:
        s.delete_key(x)


@case
def multi_set_big_values():
    s, k = client(), uniq()
    ks = [k + str(i) for i in range(8)]
    vs = [os.urandom(300000) for _ in ks]
    s.multi_set(ks, vs)
    eq(s.multi_get(ks) == vs, True)
    for x in ks:
        s.delete_key(x)


@case
def multi_get_missing():
    s, k = client(), uniq()
    s.set(k, '1')
    s.set_timeout(sec(0.3))
    raises(lambda: s.multi_get([k, k + 'x']))
    s.set_timeout(sec(5))
    eq(s.multi_get([k]), [b'1'])


@case
def queue_fifo():
    s, k = client(), uniq()
    eq(s.queue_len(k), 0)
    for v in ('a', b'\x00b', '', 'd'):
        s.queue_push(k, v)
    eq(s.queue_len(k), 4)
    eq([s.queue_pop(k), s.queue_pop(k, False), s.queue_pop(k), s.queue_pop(k)], [b'a', b'\x00b', b'', b'd'])
    eq(s.queue_len(k), 0)


@case
def queue_pop_empty():
    s, k = client(), uniq()
    e = raises(lambda: s.queue_pop(k, False))
    eq(type(e).__name__, 'QueueEmptyError')
    s.queue_push(k, 'x')
    eq(s.queue_pop(k, False), b'x')
    raises(lambda: s.queue_pop(k, False))


@case
def queue_pop_times_out():
    s, k = client(), uniq()
    s.set_timeout(sec(0.3))
    raises(lambda: s.queue_pop(k))
    s.set_timeout(sec(5))
    s.queue_push(k, '1')
    eq(s.queue_pop(k), b'1')


@case
def queue_pop_blocks():
    a, b, k = client(), client(), uniq()
    later(0.2, lambda: b.queue_push(k, 'x'))
    t0 = time.monotonic()
    eq(a.queue_pop(k), b'x')
    within(t0, 0.15, 1.5, 'queue_pop')


@case
def queue_two_waiters():
    a, b, c, k = client(), client(), client(), uniq()
    got = []
    ts = [threading.Thread(target=lambda s=s: got.append(s.queue_pop(k))) for s in (a, b)]
    for t in ts:
        t.start()
    time.sleep(0.3)
    c.queue_push(k, '1')
    time.sleep(0.2)
    c.queue_push(k, '2')
    for t in ts:
        t.join(5)
    eq(sorted(got), [b'1', b'2'])
    eq(c.queue_len(k), 0)


@case
def queue_is_no_key():
    s, k = client(), uniq()
    n = s.num_keys()
    s.queue_push(k, 'x')
    eq(s.num_keys() - n, 0, 'num_keys')
    eq(s.check([k]), True, 'check of a filled queue')
    s.wait([k], sec(1))
    eq(s.delete_key(k), False, 'delete_key')
    eq(s.queue_pop(k), b'x')
    eq(s.check([k]), False, 'check of an empty queue')


@case
def queue_wait_with_a_missing_key():
    a, b, k = client(), client(), uniq()
    b.queue_push(k + 'q', 'x')
    later(0.2, lambda: b.set(k, '1'))
    try:
        a.wait([k + 'q', k], sec(1.5))
    except Exception:
        raise Fail('a filled queue and a key that came did not end the wait')


@case
def queue_push_wakes_no_stranger():
    a, b, k = client(), client(), uniq()
    later(0.15, lambda: b.queue_push(k + 'q', '1'))
    eq(a.queue_pop(k + 'q'), b'1')
    later(0.15, lambda: b.queue_push(k + 'q', '2'))
    later(0.6, lambda: b.set(k, 'v'))
    t0 = time.monotonic()
    a.wait([k], sec(5))
    within(t0, 0.5, 2, 'a wait for a key, with a push to a queue that was once waited for')


@case
def list_keys():
    s, k = client(), uniq()
    names = [k + x for x in ('a', '', '\u9375', ' b')]
    for x in names:
        s.set(x, '1')
    got = s.list_keys()
    eq(sorted(x for x in got if x.startswith(k)), sorted(names))
    eq(len(got), len(set(got)), 'doubles')


@case
def barrier_of_4():
    ss, k = [client() for _ in range(4)], uniq()
    out, t0 = [], time.monotonic()

    def go(i):
        time.sleep(0.1 * i)
        ss[i].barrier(k, 4, sec(5))
        out.append(time.monotonic() - t0)
    ts = [threading.Thread(target=go, args=(i,)) for i in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join(8)
    eq(len(out), 4)
    if min(out) < 0.28:
        raise Fail('a barrier of 4 let one go at %.3f s, before the last came' % min(out))
    eq(ss[0].get(k), b'4')


@case
def barrier_timeout_then_ops():
    s, k = client(), uniq()
    raises(lambda: s.barrier(k, 2, sec(0.2)))
    eq(s.get(k), b'1')
    eq(s.add(k, 0), 1)
    o = client()
    o.barrier(k, 2, sec(2))
    eq(s.add(k + 'n', 1), 1)


@case
def clone():
    s, k = client(), uniq()
    c = s.clone()
    c.set(k, '1')
    eq(s.get(k), b'1')
    del s
    eq(c.add(k, 1), 2)


@case
def prefix_store():
    s, k = client(), uniq()
    p = dist.PrefixStore(k, s)
    inner = dist.PrefixStore('in', p)
    p.set('a', '1')
    inner.set('a', '2')
    eq([p.get('a'), inner.get('a'), s.get(k + '/a'), s.get(k + '/in/a')], [b'1', b'2', b'1', b'2'])
    eq([p.add('n', 3), p.check(['a', 'n']), p.delete_key('a'), p.check(['a'])], [3, True, True, False])
    p.wait(['n'], sec(1))
    p.append('x', 'ab')
    p.multi_set(['y', 'z'], ['1', '2'])
    eq(p.multi_get(['z', 'y', 'x']), [b'2', b'1', b'ab'])
    eq(p.compare_set('c', '', 'v'), b'v')
    eq(sorted(p.list_keys()), ['c', 'in/a', 'n', 'x', 'y', 'z'])
    p.barrier('bar', 1, sec(2))
    p.queue_push('q', 'v')
    eq(p.queue_pop('q'), b'v')


@case
def has_extended_api():
    eq(client().has_extended_api(), True)


@case
def wait_for_workers_4():
    r = Raw()
    r.send(q('ADD', vec('init/'), i64(0)))
    n, = struct.unpack('<q', r.recv(8))
    out = []
    ts = [threading.Thread(target=lambda: out.append(client(world_size=4, wait=True))) for _ in range(4)]
    for t in ts:
        t.start()
    want = str(n + 4).encode()
    t0 = time.monotonic()
    while True:  # what a master does
        r.send(q_keys('WAIT', 'init/'))
        r.expect(b'\0')
        r.send(q_get('init/'))
        v = r.recv_vec()
        if v == want:
            break
        within(t0, 0, 10, 'waiting for 4 workers')
        time.sleep(0.01)
    for t in ts:
        t.join(5)
    eq(len(out), 4)


@case
def four_threads_own_clients():
    k, errs = uniq(), []

    def go(i):
        try:
            s = client()
            for j in range(300):
                s.set('%s-%d' % (k, i), str(j))
                eq(s.get('%s-%d' % (k, i)), str(j).encode())
                s.add(k, 1)
        except Exception as e:
            errs.append(e)
    ts = [threading.Thread(target=go, args=(i,)) for i in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join(20)
    eq(errs, [])
    eq(client().add(k, 0), 1200)


@case
def four_threads_one_client():
    k, errs, s = uniq(), [], client()

    def go(i):
        try:
            for j in range(200):
                s.set('%s-%d' % (k, i), str(j))
                eq(s.get('%s-%d' % (k, i)), str(j).encode())
                s.add(k, 1)
        except Exception as e:
            errs.append(e)
    ts = [threading.Thread(target=go, args=(i,)) for i in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join(20)
    eq(errs, [])
    eq(s.add(k, 0), 800)


@case
def sixty_four_clients():
    k = uniq()
    ss = [client() for _ in range(64)]
    for s in ss:
        s.add(k, 1)
    eq(ss[0].get(k), b'64')
    for i, s in enumerate(ss):
        s.set('%s-%d' % (k, i), str(i))
    eq([s.get('%s-%d' % (k, 63 - i)) for i, s in enumerate(ss)], [str(63 - i).encode() for i in range(64)])


@limit(60)
def gloo_world_of_3():
    """Three real workers meet through env:// with the launcher's store (every rank a client) and all-reduce over Gloo."""
    code = ('import torch,torch.distributed as d,datetime\n'
            'd.init_process_group("gloo",timeout=datetime.timedelta(seconds=30))\n'
            't=torch.ones(4)*(d.get_rank()+1); d.all_reduce(t); assert t.tolist()==[6.0]*4,t\n'
            'd.barrier(); o=[None]*3; d.all_gather_object(o,d.get_rank()); assert o==[0,1,2]\n'
            'd.monitored_barrier(); g=d.new_group([0,2]); d.destroy_process_group()\n')
    ps = []
    for r in range(3):
        env = dict(os.environ, MASTER_ADDR=HOST, MASTER_PORT=str(PORT), RANK=str(r), WORLD_SIZE='3', LOCAL_RANK=str(r),
                   TORCHELASTIC_USE_AGENT_STORE='True', TORCHELASTIC_RESTART_COUNT='0', OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo')
        ps.append(subprocess.Popen([sys.executable, '-W', 'ignore', '-c', code], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    errs = []
    for p in ps:
        e = p.communicate()[1]
        if p.returncode:
            errs.append(e.strip().splitlines()[-1][:150] if e.strip() else 'exit %d' % p.returncode)
    eq(errs, [])

# ------------------------------------------------------------------------------------------- raw, well formed


@case
def raw_pipelined():
    r, k = Raw(), '/' + uniq()
    r.send(q_set(k, 'a') + q_keys('WAIT', k) + q_get(k) + q('APPEND', vec(k), vec('b')) + q_get(k) +
           q('ADD', vec(k + 'n'), i64(4)) + q_keys('CHECK', k, k + 'x') + q('DELETE_KEY', vec(k)) + ping(9))
    r.expect(b'\0' + vec('a') + vec('ab') + i64(4) + b'\1' + i64(1) + struct.pack('<I', 9))


@case
def raw_pipelined_20000():
    r, k = Raw(), '/' + uniq()
    blob = b''.join(q('ADD', vec(k), i64(1)) for _ in range(20000))
    t = threading.Thread(target=lambda: r.send(blob))
    t.start()
    got = r.recv(160000, 15)
    t.join()
    eq(got, b''.join(i64(i + 1) for i in range(20000)), 'answers in order')


@case
def raw_byte_by_byte():
    r, k = Raw(hello=False), '/' + uniq()
    r.send(VALIDATE)
    time.sleep(0.1)
    for b in ping(7) + q_set(k, 'xyz') + q_get(k) + q('MULTI_SET', u64(2), vec(k), vec('1'), vec(k + '2'), vec('2')) + q_keys('MULTI_GET', k + '2', k):
        r.send(bytes([b]))
        time.sleep(0.001)
    r.expect(struct.pack('<I', 7) + vec('xyz') + vec('2') + vec('1'))


@case
def raw_validate_split():
    for cut in (1, 2, 4):
        r = Raw(hello=False)
        r.send(VALIDATE[:cut])
        time.sleep(0.15)
        r.send(VALIDATE[cut:] + ping(5))
        r.expect(struct.pack('<I', 5), 'VALIDATE cut after %d bytes, then PING' % cut, 1)


@case
def raw_validate_without_ping():
    r, k = Raw(hello=False), '/' + uniq()
    r.send(VALIDATE)
    r.send(q('ADD', vec(k), i64(2)))
    r.expect(i64(2), 'torch 2.2 to 2.4 clients send no PING')


@case
def raw_wait_then_others():
    r, k = Raw(), '/' + uniq()
    r.send(q_keys('WAIT', k) + q('ADD', vec(k + 'n'), i64(1)) + ping(1))
    r.expect(i64(1) + struct.pack('<I', 1), 'requests behind an open WAIT')
    r.send(q_set(k, '') + ping(2))
    eq(sorted([r.recv(1), r.recv(4)]), sorted([b'\0', struct.pack('<I', 2)]))


@case
def raw_wait_own_set():
    r, k = Raw(), '/' + uniq()
    r.send(q_keys('WAIT', k) + q_set(k, '1'))
    r.expect(b'\0')


@case
def raw_cancel():
    r, k = Raw(), '/' + uniq()
    r.send(q('CANCEL_WAIT'))
    r.expect(b'\1', 'CANCEL_WAIT with none open')
    r.send(q_keys('WAIT', k))
    time.sleep(0.1)
    r.send(q('CANCEL_WAIT'))
    r.expect(b'\1')
    r.send(q_set(k, '1'))
    r.quiet(0.2, 'a cancelled WAIT was answered')
    r.send(q_keys('WAIT', k + '2') + q_set(k + '2', '1') + q('CANCEL_WAIT'))
    r.expect(b'\0\1', 'answer and cancel cross')


@case
def raw_get_missing():
    r, k = Raw(), '/' + uniq()
    r.send(q_get(k) + q_keys('MULTI_GET', k, k) + ping(4))
    r.expect(u64(0) * 3 + struct.pack('<I', 4), 'GET and MULTI_GET of missing keys: empty values')


@case
def raw_no_keys():
    r = Raw()
    r.send(q_keys('WAIT') + q_keys('CHECK') + q_keys('MULTI_GET') + q('MULTI_SET', u64(0)) + ping(6))
    r.expect(b'\0\0' + struct.pack('<I', 6))


@case
def raw_half_close():
    r, k = Raw(), '/' + uniq()
    r.send(q_set(k, '1') + q_get(k))
    r.s.shutdown(socket.SHUT_WR)
    r.expect(vec('1'))
    r.closed(2, 'after the client closed its half')


@case
def raw_keys_are_bytes():
    r = Raw()
    k = b'\xff\xfe\x00' + os.urandom(8)
    r.send(q_set(k, 'v') + q_get(k) + q('DELETE_KEY', vec(k)))
    r.expect(vec('v') + i64(1))


@case
def raw_delete_while_waited_for():
    """A set that is deleted before the other key comes must not hang the server; either outcome of the WAIT is fine."""
    a, b, k = Raw(), Raw(), '/' + uniq()
    a.send(q_keys('WAIT', k + '1', k + '2'))
    time.sleep(0.05)
    b.send(q_set(k + '1', '') + q('DELETE_KEY', vec(k + '1')) + q_set(k + '2', ''))
    b.expect(i64(1))
    time.sleep(0.1)
    b.send(q_set(k + '1', ''))
    a.expect(b'\0', 'the WAIT in the end')

# ------------------------------------------------------------------------------------------- raw, malformed and hostile


def must_close(name, *sends, hello=True, wait=1.0):
    r = Raw(hello=hello)
    try:
        for b in sends:
            r.send(b)
            time.sleep(0.1)
    except OSError:
        pass
    r.closed(wait, name)
    others_served('after ' + name)


def must_not_hurt(name, b, t=0.3):
    r = Raw()
    r.send(b)
    time.sleep(t)
    others_served('during ' + name)
    r.close()
    others_served('after ' + name)


@case
def bad_magic():
    must_close('VALIDATE with a wrong magic number', b'\x00\xde\xad\xbe\xef', hello=False)


@case
def bad_magic_then_requests():
    k = '/' + uniq()
    r = Raw(hello=False)
    try:
        r.send(b'\x00\xde\xad\xbe\xef')
        time.sleep(0.1)
        r.send(q_set(k, 'x') + ping(1))
    except OSError:
        pass
    r.closed(1, 'requests after a wrong magic number')
    w = Raw()
    w.send(q_keys('CHECK', k))
    w.expect(b'\1', 'the SET after a wrong magic number took effect')


@case
def no_validate():
    must_close('PING as the first request', ping(1), hello=False)


@case
def no_validate_then_more():
    """A second segment must not open what the first did not."""
    r = Raw(hello=False)
    try:
        r.send(ping(1))
        time.sleep(0.15)
        r.send(ping(2))
    except OSError:
        pass
    got = r.closed(1, 'PING, PING without VALIDATE')
    eq(got, b'', 'answers without VALIDATE')


@case
def validate_twice():
    must_close('a second VALIDATE', VALIDATE)


@case
def http_request():
    must_close('an HTTP request', b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', hello=False)


@case
def tls_hello():
    must_close('a TLS hello', bytes.fromhex('16030100c8010000c40303') + os.urandom(32), hello=False)


@case
def unknown_ops():
    for op in (19, 20, 127, 128, 255):
        must_close('op %d' % op, bytes([op]))


@case
def key_length_2_62():
    must_close('a key length of 2^62', b'\x01' + u64(1 << 62))


@case
def key_length_max():
    must_close('a key length of 2^64-1', b'\x01' + u64((1 << 64) - 1))


@case
def value_length_max():
    must_close('a value length of 2^64-1', b'\x01' + vec('/k') + u64((1 << 64) - 1))


@case
def key_count_2_62():
    for op in ('CHECK', 'WAIT', 'MULTI_GET', 'MULTI_SET'):
        must_close('%s of 2^62 keys' % op, q(op, u64(1 << 62)))


@case
def key_count_131073():
    must_not_hurt('WAIT of 131,073 keys that do not come', q('WAIT', u64(131073)))


@case
def key_of_8193_bytes():
    """Either it is taken, or the connection is closed; nothing in between."""
    k = b'/' + os.urandom(8).hex().encode() + b'x' * 8176
    r = Raw()
    r.send(q_set(k, 'v') + q_keys('CHECK', k))
    time.sleep(0.2)
    if not r.is_closed(0.3):
        r = Raw()
        r.send(q_set(k, 'v') + q_keys('CHECK', k))
        r.expect(b'\0', 'a key of 8,193 bytes was taken')
    others_served('after a key of 8,193 bytes')


@case
def value_over_8mib():
    must_not_hurt('a value length of 8 MiB + 1', b'\x01' + vec('/' + uniq()) + u64(8 * 1024 * 1024 + 1) + b'x' * 1000)


@case
def truncated_request():
    must_not_hurt('a SET that stops 4 bytes early', q_set('/' + uniq(), '0123456789')[:-4])


@case
def truncated_request_then_close():
    k = '/' + uniq()
    r = Raw()
    r.send(q_set(k, '0123456789')[:-4])
    time.sleep(0.05)
    r.close()
    w = Raw()
    w.send(q_keys('CHECK', k))
    w.expect(b'\1', 'half a SET took effect')


@case
def truncated_everywhere():
    k = '/' + uniq()
    for whole in (VALIDATE, VALIDATE + ping(1), VALIDATE + q('COMPARE_SET', vec(k), vec(''), vec('x')),
                  VALIDATE + q_keys('WAIT', k, k + '2'), VALIDATE + q('MULTI_SET', u64(2), vec(k), vec('v'), vec(k + '2'), vec('w'))):
        for n in range(0, len(whole), 3):
            r = Raw(hello=False)
            r.send(whole[:n])
            r.close()
    others_served('after requests cut at every third byte')


@case
def silent_connections():
    rs = [Raw(hello=False) for _ in range(200)]
    others_served('with 200 connections that say nothing')
    for r in rs:
        r.close()


@limit(40)
def slow_loris():
    """64 connections drip a SET at 20 bytes a second; a normal client must not notice."""
    k = '/' + uniq()
    rs = [Raw() for _ in range(64)]
    stop = threading.Event()

    def drip():
        b = q_set(k, 'x' * 4000)
        for i in range(0, 400):
            for r in rs:
                try:
                    r.send(b[i:i + 1])
                except OSError:
                    pass
            if stop.wait(0.05):
                return
    t = threading.Thread(target=drip, daemon=True)
    t.start()
    time.sleep(0.3)
    worst = 0
    try:
        w = Raw(timeout=1)
        for i in range(200):
            t0 = time.monotonic()
            w.send(q('ADD', vec(k + 'n'), i64(1)))
            w.recv(8, 1)
            worst = max(worst, time.monotonic() - t0)
    except (Fail, OSError) as e:
        raise Fail('a normal client was not served (%s)' % e)
    finally:
        stop.set()
        t.join()
    if worst > 0.25:
        raise Fail('slowest answer %.3f s' % worst)


@limit(40)
def slow_reader():
    """A client asks for 128 MiB and does not read; others must be served, and it must get all of it later or be closed."""
    k = '/' + uniq()
    r = Raw()
    v = os.urandom(1 << 20)
    r.send(q_set(k, v) + q('DELETE_KEY', vec(k + 'x')))
    r.expect(i64(0))
    n = 128
    r.send(q_get(k) * n)
    time.sleep(0.3)
    others_served('while a client does not read its answers')
    got = 0
    end = time.monotonic() + 20
    while got < n * (len(v) + 8) and time.monotonic() < end:
        b = r.s.recv(1 << 20)
        if not b:
            break
        got += len(b)
    r.close()
    w = Raw()
    w.send(q('DELETE_KEY', vec(k)))
    w.expect(i64(1))
    if 0 < n * (len(v) + 8) - got and time.monotonic() >= end:
        raise Fail('only %d bytes came in 20 s' % got)


@case
def reset_connections():
    for i in range(100):
        r = Raw()
        r.send(q_get('/' + uniq()) + q_keys('WAIT', '/' + uniq()))
        r.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        r.close()
    others_served('after 100 resets')


@case
def reset_with_answers_under_way():
    k = '/' + uniq()
    w = Raw()
    w.send(q_set(k, b'x' * (1 << 20)) + ping(1))
    w.expect(struct.pack('<I', 1))
    for i in range(20):
        r = Raw()
        r.send(q_get(k) * 5)
        r.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        time.sleep(0.005)
        r.close()
    others_served('after 20 resets with answers under way')


@case
def churn_of_500_connections():
    for i in range(500):
        Raw().close()
    others_served('after 500 short connections')


@case
def fuzz_after_hello():
    rnd = random.Random(20260713)
    for i in range(300):
        r = Raw()
        b = bytearray()
        for _ in range(rnd.randrange(1, 6)):
            op = rnd.randrange(1, 24)
            b.append(op)
            for _ in range(rnd.randrange(0, 4)):
                n = rnd.choice((0, 1, 3, 8, 200, 1 << 63, (1 << 64) - 1))
                b += u64(n) + rnd.randbytes(min(n, rnd.choice((0, 3, 8, 200))))
        try:
            r.send(bytes(b))
        except OSError:
            pass
        r.close()
    others_served('after 300 connections of noise')


@case
def fuzz_before_hello():
    rnd = random.Random(7)
    for i in range(200):
        r = Raw(hello=False)
        r.send(rnd.randbytes(rnd.randrange(1, 40)))
        r.close()
    others_served('after 200 connections of noise without a handshake')

# ------------------------------------------------------------------------------------------- replay of vectors


def wipe():
    r = Raw()
    r.send(q('LIST_KEYS'))
    n, = struct.unpack('<q', r.recv(8))
    keys = [r.recv_vec() for _ in range(n)]
    for k in keys:
        r.send(q('DELETE_KEY', vec(k)))
        r.expect(i64(1))
    for k in ('/q', '/bar', '/k'):
        try:
            while True:
                r.send(q('QUEUE_POP', vec(k)))
                n, = struct.unpack('<q', r.recv(8, 1))
                if n == 0:
                    break
                r.recv_vec()
        except (Fail, OSError):  # a server without queues
            return
    r.close()


def replay(v):
    conns = {}
    for i, (c, d, h) in enumerate(v['events']):
        b = bytes.fromhex(h)
        if c not in conns:
            conns[c] = Raw(hello=False)
        r = conns[c]
        if d == 'c':
            if b:
                r.send(b)
                time.sleep(0.02)
            else:
                try:
                    r.s.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
        elif b:
            got = r.recv(len(b))
            if got != b:
                raise Fail('event %d on connection %d: got %s, wanted %s' % (i, c, got[:64].hex(), b[:64].hex()))
        else:
            r.closed(3, 'event %d on connection %d' % (i, c))
    for c, r in conns.items():
        if select.select([r.s], [], [], 0.02)[0]:
            b = r.s.recv(64)
            if b:
                raise Fail('connection %d: %d bytes too many (%s)' % (c, len(b), b.hex()))
        r.close()


def vector_cases(d, backend, old_dialects):
    for f in sorted(glob.glob(os.path.join(d, '*.json'))):
        v = json.load(open(f))
        if v.get('replay') != 'exact' or v['backend'] not in ('both', backend):
            continue

        def run(v=v):
            wipe()
            replay(v)
        CASES.append(('replay_' + v['name'], run, 15))
    for f in sorted(glob.glob(os.path.join(d, 'versions', '*.json'))):
        o = json.load(open(f))
        if o['dialect'] != 'C' and not old_dialects:
            continue

        def run(o=o):
            for v in o['cases']:
                if v['replay'] == 'exact' and (v['backend'] in ('both', backend) or o['dialect'] != 'C'):
                    wipe()
                    try:
                        replay(v)
                    except Fail as e:
                        raise Fail('%s: %s' % (v['name'], e))
        CASES.append(('replay_version_' + os.path.basename(f)[6:-5], run, 60))

# ------------------------------------------------------------------------------------------- no name look-ups

SHIM = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
int getnameinfo(const struct sockaddr *a, socklen_t l, char *h, socklen_t hl, char *s, socklen_t sl, int f)
{
	static int (*real)(const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int);
	if (!real) *(void **)&real = dlsym(RTLD_NEXT, "getnameinfo");
	return real(a, l, h, hl, s, sl, f | NI_NUMERICHOST);
}
"""


def without_dns():
    """Start this program over with the shim preloaded; returns if there is no compiler or it is preloaded already."""
    if os.environ.get('STORE_NO_DNS'):
        return
    d = tempfile.mkdtemp()
    so = os.path.join(d, 'numeric.so')
    try:
        open(os.path.join(d, 'numeric.c'), 'w').write(SHIM)
        subprocess.check_call(['cc', '-O1', '-shared', '-fPIC', '-o', so, os.path.join(d, 'numeric.c'), '-ldl'],
                              stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(d, ignore_errors=True)
        return
    env = dict(os.environ, STORE_NO_DNS=d, LD_PRELOAD=(so + ' ' + os.environ.get('LD_PRELOAD', '')).strip())
    rc = subprocess.call([sys.executable, '-W', 'ignore'] + sys.argv, env=env)
    shutil.rmtree(d, ignore_errors=True)
    sys.exit(rc)

# ------------------------------------------------------------------------------------------- runner


def run_case(name, f, limit_s):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        os.setpgid(0, 0)
        msg = 'ok'
        try:
            f()
        except Fail as e:
            msg = str(e)
        except BaseException as e:
            msg = '%s: %s' % (type(e).__name__, (str(e).splitlines() or [''])[0][:200])
        os.write(w, (msg or 'failed').encode()[:2000])
        os._exit(0)
    os.close(w)
    msg = b''
    if select.select([r], [], [], limit_s)[0]:
        msg = os.read(r, 4000)
    os.close(r)
    if not msg:
        time.sleep(0.05)
        p, st = os.waitpid(pid, os.WNOHANG)
        if p == 0:
            msg = b'no end in %d s' % limit_s
            try:
                os.killpg(pid, signal.SIGKILL)  # the case's own group: the child and the workers it started
            except OSError:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        else:
            msg = b'the case died, status %d' % st
    else:
        os.waitpid(pid, 0)
    return msg.decode(errors='replace')


def main():
    global HOST, PORT, dist
    ap = argparse.ArgumentParser(description='TCPStore conformance')
    ap.add_argument('host', nargs='?')
    ap.add_argument('port', nargs='?', type=int)
    ap.add_argument('--self', dest='own', choices=('libuv', 'legacy'))
    ap.add_argument('--backend', choices=('libuv', 'legacy'))
    ap.add_argument('--only', default='')
    ap.add_argument('--skip', default='')
    ap.add_argument('--old-dialects', action='store_true')
    ap.add_argument('--no-gloo', action='store_true')
    ap.add_argument('--vectors', default=os.path.join(HERE, '..', 'unit', 'vectors'))
    ap.add_argument('--dns', action='store_true')
    ap.add_argument('--list', action='store_true')
    a = ap.parse_args()
    backend = a.backend or a.own or 'libuv'
    vector_cases(a.vectors, backend, a.old_dialects)
    if a.list:
        print('\n'.join(c[0] for c in CASES))
        return 0
    if not a.own and a.port is None:
        ap.error('HOST and PORT, or --self')
    if not a.dns:
        without_dns()
    server = None
    if a.own:
        server = subprocess.Popen([sys.executable, '-W', 'ignore', os.path.abspath(__file__), '--serve', a.own],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        HOST, PORT = '127.0.0.1', int(server.stdout.readline())
    else:
        HOST, PORT = a.host, a.port
    import torch.distributed as dist_mod
    dist = dist_mod
    passed = failed = 0
    for name, f, lim in CASES:
        if not name.startswith(a.only) or any(p and name.startswith(p) for p in a.skip.split(',')):
            continue
        if a.no_gloo and name.startswith('gloo'):
            continue
        msg = run_case(name, f, lim)
        if msg == 'ok':
            passed += 1
            print('ok', name, flush=True)
        else:
            failed += 1
            print('FAIL %s: %s' % (name, msg.replace('\n', ' ')), flush=True)
        if server and server.poll() is not None:
            print('the server died')
            break
    if server:
        server.stdin.close()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
    print('%d passed, %d failed' % (passed, failed))
    return 1 if failed or not passed else 0


def serve(kind):
    import torch.distributed as d
    s = d.TCPStore('127.0.0.1', 0, None, True, sec(300), wait_for_workers=False, use_libuv=kind == 'libuv')
    print(s.port, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == '__main__':
    if len(sys.argv) > 2 and sys.argv[1] == '--serve':
        serve(sys.argv[2])
    sys.exit(main())
