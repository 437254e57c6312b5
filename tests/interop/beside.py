"""The same jobs under torchrun and under ccrun: what the workers, the console and the log folder saw.

beside.py run torchrun|ccrun FOLDER [JOB...]   run them, or all; what they left is in FOLDER/torchrun/JOB, FOLDER/ccrun/JOB
beside.py same FOLDER [JOB...]                 then write what differs and is not documented to FOLDER/JOB.differs
beside.py jobs                                 the names

torchrun is torch.distributed.run.main() in a fork of a process that has imported torch, which saves seconds a job; jobs
marked real run the program `torchrun` itself.
"""
import json
import os
import re
import shutil
import signal
import socket
import sys
import time

from beside_jobs import JOBS, MACROS, read

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 30  # seconds


def environment(job, folder):
    env = {
        "PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "TMPDIR": folder + "/tmp",
        "PYTHON_EXEC": sys.executable, "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore", "BESIDE": job.do, "OMP_NUM_THREADS": "1",
        # Whatever a user may have set goes through untouched.
        "ODD": b"\xff\xfe\x01 \n=x".decode("utf-8", "surrogateescape"), "EMPTY": "", "RANK": "from outside",
    }
    for name, value in job.env.items():
        if value is None:
            del env[name]
        else:
            env[name] = value.replace("@FOLDER@", folder)
    return env


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return str(s.getsockname()[1])


def in_fork(line, folder, env):
    """Becomes torchrun, in a child."""
    import torch.distributed.run

    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["torchrun", *line]
    try:
        torch.distributed.run.main()
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    os._exit(code)


def start(launcher, job, folder):
    os.makedirs(folder + "/tmp")
    os.mkdir(folder + "/bin")
    os.symlink(sys.executable, folder + "/bin/beside-python")
    line = [word.replace("@FOLDER@", folder) for word in job.line if launcher == "ccrun" or word != MACROS]
    if any("@PORT@" in word for word in line):
        port = free_port()
        line = [word.replace("@PORT@", port) for word in line]
        with open(folder + "/port", "w") as f:
            f.write(port)
    env = environment(job, folder)
    torchrun = [sys.executable, os.path.dirname(sys.executable) + "/torchrun"]  # below a path with a space it starts with a shell
    argv = [*([os.environ["CCRUN"]] if launcher == "ccrun" else torchrun), *line]
    pid = os.fork()
    if pid:
        return pid
    try:
        os.chdir(folder)
        os.umask(0o027)
        for fd, name in enumerate(("/dev/null", "out", "err")):
            new = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(new, fd)
            os.close(new)
        os.dup2(1, 9)  # inheritable; what the launcher was given by accident
        for s in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(s, signal.SIG_DFL)
        os.nice(1)
        if launcher == "ccrun" or job.is_real:
            os.execve(argv[0], argv, env)
        for s in (signal.SIGPIPE, signal.SIGXFSZ):  # as in a Python that has just started
            signal.signal(s, signal.SIG_IGN)
        in_fork(line, folder, env)
    finally:
        os._exit(99)


def wait(pid, folder, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "more than %d s" % seconds


def until(folder, condition):
    end = time.monotonic() + PATIENCE
    while not condition(folder) and time.monotonic() < end:
        time.sleep(0.01)


def run(launcher, top, names):
    if launcher == "torchrun":
        import torch.distributed.run  # noqa: F401, for the forks
    work, kept = top + "/work", top + "/" + launcher
    os.makedirs(work, exist_ok=True)
    os.makedirs(kept)
    waiting, running = [JOBS[n] for n in names or JOBS], []
    while waiting or running:
        while waiting and len(running) < 3:
            job = waiting.pop(0)
            running.append((job, start(launcher, job, work + "/" + job.name), list(job.signals)))
        for item in list(running):
            running.remove(item)
            job, pid, signals = item
            folder = work + "/" + job.name
            for condition, signum in signals:
                until(folder, condition)
                os.kill(pid, signum)
            with open(folder + "/status", "w") as f:
                print(wait(pid, folder), file=f)
            os.rename(folder, kept + "/" + job.name)
    shutil.rmtree(work)


# ---- what there is to compare

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def plain(text):
    """Without what is different in every run."""
    text = UUID.sub("UUID", text)
    text = re.sub(r"(torchelastic_)[a-z0-9_]{8}\b", r"\1RANDOM", text)
    return re.sub(r"_[a-z0-9_]{8}(/attempt_|$|(?=/$))", r"_RANDOM\1", text)


def console(folder, name):
    """Lines of workers only, in the order of each; two workers have no common order."""
    return sorted(line for line in read(folder + "/" + name).split(b"\n") if b"says: " in line)


def tree(folder):
    """Every folder and file below: its mode, and the bytes in it."""
    found = {}
    for top in ("logs", "tmp", "parent.json"):
        if os.path.isfile(folder + "/" + top):
            found[top] = contents(folder + "/" + top)
        for path, folders, files in os.walk(folder + "/" + top):
            name = plain(os.path.relpath(path, folder))
            found[name + "/"] = "mode %o" % (os.stat(path).st_mode & 0o777)
            for f in files:
                found[name + "/" + f] = contents(path + "/" + f)
    return found


def contents(path):
    data = read(path)
    if path.endswith(".json"):
        try:
            data = document(data.decode())
        except ValueError:
            pass  # half a document
    elif path.endswith("filtered_stdout.log") or path.endswith("filtered_stderr.log"):
        data = sorted(data.split(b"\n"))
    return ("mode %o" % (os.stat(path).st_mode & 0o777), data)


def document(text):
    """JSON with its members in order, without what no two runs share; how text is escaped does not count."""
    def part(pairs):
        changing = {"timestamp": 10**9, "total_run_time": 0, "duration_ms": 0, "worker_id": 1, "worker_pid": 1}
        for i, (name, value) in enumerate(pairs):
            if name in ("metadata", "raw_error") and isinstance(value, str) and value.startswith("{"):
                pairs[i] = (name, document(value))
            elif name == "hostname" and value in (socket.getfqdn(), socket.gethostname()):
                pairs[i] = (name, "this host")
            elif name in changing and value not in (None, [None]):
                number = float(value[0] if isinstance(value, list) else value)
                pairs[i] = (name, "a number" if number == 0 or number >= changing[name] else value)
        return pairs

    return json.loads(plain(text), object_pairs_hook=part)


def events(folder):
    lines = read(folder + "/err").decode("utf-8", "replace").splitlines()
    found = [document(line) for line in lines if line.startswith('{"name": "torchelastic')]
    if any(line.startswith('{"name": ') and line != json.dumps(json.loads(line), ensure_ascii=False) for line in lines):
        found.append("not spaced as Python does")
    return found


def seen(folder):
    found = {}
    for name in sorted(os.listdir(folder + "/seen")) if os.path.isdir(folder + "/seen") else ():
        with open(folder + "/seen/" + name) as f:
            one = json.load(f)
        one["variables"] = len(one["environment"])  # none is there twice
        env = dict(entry.partition("=")[::2] for entry in one.pop("environment"))
        if os.path.exists(folder + "/port") and env["MASTER_PORT"] == read(folder + "/port").decode():
            env["MASTER_PORT"] = "the one asked for"
        attempt, rank, _ = name.split(".")
        who = "attempt %s rank %s: " % (attempt, rank)
        found.update({who + "$" + k: plain(v) for k, v in env.items()})
        found.update({who + k: plain(v) if isinstance(v, str) else v for k, v in one.items()})
    return found


def observe(job, folder):
    status = read(folder + "/status").strip()
    found = {"status is 0": status == b"0", "has ended": not status.startswith(b"more")}
    found.update(seen(folder))
    found.update(("file " + k, v) for k, v in tree(folder).items())
    found["stdout"], found["stderr"], found["events"] = console(folder, "out"), console(folder, "err"), events(folder)
    return found


def same(top, name):
    """What differs, as text."""
    job = JOBS[name]
    folders = ["%s/%s/%s" % (top, who, name) for who in ("torchrun", "ccrun")]
    theirs, ours = (observe(job, folder) for folder in folders)
    found = [] if theirs["has ended"] else ["torchrun has not ended\n"]
    for key in sorted(set(theirs) | set(ours)):
        a, b = theirs.get(key, "(nothing)"), ours.get(key, "(nothing)")
        if job.is_as_documented(key, a, b):
            continue
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            a, b = [x for x, y in zip(a, b) if x != y], [y for x, y in zip(a, b) if x != y]
        found.append("%s\n  torchrun: %r\n  ccrun:    %r\n" % (key, a, b))
    found += ["not seen: %s\n" % what for what in job.shows if not any(what in key and theirs[key] for key in theirs)]
    if found:
        found += ["%s/err:\n%s\n" % (folder, read(folder + "/err").decode("utf-8", "replace")) for folder in folders]
    return "".join(found)


if __name__ == "__main__":
    if sys.argv[1] == "jobs":
        print("\n".join(JOBS))
    elif sys.argv[1] == "run":
        run(sys.argv[2], os.path.abspath(sys.argv[3]), sys.argv[4:])
    else:
        for name in sys.argv[3:] or JOBS:
            with open("%s/%s.differs" % (sys.argv[2], name), "w") as f:
                f.write(same(sys.argv[2], name))
