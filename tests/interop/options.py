"""Compare ccrun's command line with torchrun's own parser on random lines: options.py HELPER COUNT [SEED]

Lines on which ccrun means to differ are left out: what stands after the script (torchrun 2.13 on Python 3.11 still
looks at it), abbreviations that torchrun calls ambiguous only because one option has two spellings, and the word "--".
"""
import contextlib
import io
import os
import random
import subprocess
import sys

from torch.distributed.run import get_args_parser

LONG = ["nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "standalone", "max-restarts",
        "monitor-interval", "start-method", "event-log-handler", "role", "module", "no-python", "run-path", "log-dir",
        "redirects", "tee", "local-ranks-filter", "duplicate-stdout-filters", "duplicate-stderr-filters", "node-rank",
        "master-addr", "master-port", "local-addr", "logs-specs", "numa-binding", "signals-to-handle", "shutdown-timeout",
        "virtual-local-rank"]
FLAGS = {"standalone", "module", "no-python", "run-path", "virtual-local-rank"}
VALUES = ["1", "0", "3", "-1", "-1.5", "x", "", "1:2", "a=b,c=d", "a,,b,c", "spawn", "fork", "bad", "node", "socket", "1_0",
          " 7 ", "0x1", "1e-3", ".5", "inf", "-x", "-", "two words", "-two words", "3.0", "auto", "--foo", "it's"]
SHORT = ["-m", "-r3", "-t0:1", "-r=3", "-mr3", "-mt", "-r", "-mx", "-m=1", "-x", "-mmr2", "-1", "-tm", "-rt"]


def random_option(rng):
    kind = rng.random()
    if kind < 0.15:
        return [rng.choice(SHORT)]
    name = rng.choice(LONG)
    word = "--" + (name.replace("-", "_") if rng.random() < 0.4 else name)
    if rng.random() < 0.25:
        word = word[:rng.randint(4, len(word))]
    if rng.random() < 0.04:
        word += "q"
    if name in FLAGS:
        return [word + "=1"] if rng.random() < 0.05 else [word]
    value = rng.choice(VALUES)
    return [word + "=" + value] if rng.random() < 0.5 else [word, value]


def torchrun(parser, words):
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            args = vars(parser.parse_args(words))
        except SystemExit:
            return "error", err.getvalue().rpartition("error: ")[2].rstrip("\n")
    values = {}
    for name in LONG:
        value = args[name.replace("-", "_")]
        if name in FLAGS:
            value = int(value)
        elif name.startswith("duplicate"):
            value = "".join(item + ";" for item in value)
        elif name == "monitor-interval":
            value = repr(float(value))
        elif value is None:
            value = "30" if name == "shutdown-timeout" else "0" if name == "master-port" else ""
        values[name] = str(value)
    return "ok", values, [args["training_script"]] + args["training_script_args"]


def ccrun(line):
    words = line.split("\x1f")
    if words[0] == "error":
        return "error", words[1]
    end = words.index("--", 1)
    values = dict(w.split("=", 1) for w in words[1:end])
    del values["help"]
    values["monitor-interval"] = repr(float(values["monitor-interval"]))
    return "ok", values, words[end + 1:]


def main():
    helper, count = sys.argv[1], int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    parser = get_args_parser()
    lines = []
    for _ in range(count):
        words = [w for _ in range(rng.randint(0, 4)) for w in random_option(rng)]
        if rng.random() < 0.95:
            words += ["s.py", "a", "1"]
        lines.append(words)
    text = "".join("\x1f".join(words) + "\n" for words in lines)
    ours = subprocess.run([helper], input=text, capture_output=True, text=True, check=True).stdout.split("\n")
    bad = compared = same_errors = 0
    for words, line in zip(lines, ours):
        want, got = torchrun(parser, words), ccrun(line)
        if want[0] == "error" and (want[1].startswith("ambiguous") or "unrecognized" in got[1] and "required" in want[1]):
            continue  # two spellings of one option; and the typo is worth more than the missing script
        compared += 1
        if got[0] == want[0] == "error":
            same_errors += 1
            same = got[1] == want[1] or got[1].startswith(want[1] + " (")  # what it means, or a guess
        else:
            same = got == want
        if not same:
            bad += 1
            if bad <= 10:
                print(f"{words}\n  torchrun {want}\n  ccrun    {got}")
    print(f"{compared} of {count} lines compared, {same_errors} of them errors, {bad} differ")
    return bad > 0 or compared < count // 2


if __name__ == "__main__":
    sys.exit(main())
