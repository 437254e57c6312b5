#!/usr/bin/env python3
"""Plants one bug at a time in the cores and runs the simulation on it: mutants.py [NAME-PART | --stale]

Every rule of a core has a planted bug here that an oracle must catch.  The few that no oracle can see say why; they must
survive, so that the reason stays true.  Prints a line each and "N passed, N failed"; exits 1 if any failed.

--stale only looks whether every bug can still be planted: one whose rule has changed needs a new text.

Only the file with the bug is compiled anew.  A simulation never sleeps: one that takes many times the CPU that it takes
without a bug never ends, however busy the machine is.
"""
import os
import resource
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import mutants_rdzv

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
CORES = ['agent/core/%s.c' % f for f in ('node', 'group', 'policy', 'rdzv', 'member', 'ranks', 'peers', 'budget', 'admit', 'proto',
                                         'fields', 'rdzv_state', 'rdzv_lists', 'rdzv_declined')]
SIM_NODE = ['tests/sim/sim_node.c', 'tests/sim/sim_solo.c', 'store/base/err.c']
SIM_RDZV = ['tests/sim/sim_%s.c' % f for f in ('rdzv', 'world', 'check', 'promise', 'decline', 'takeover', 'queue')] + ['store/base/err.c']
GROUP, NODE, POLICY = 'agent/core/group.c', 'agent/core/node.c', 'agent/core/policy.c'
MEMBER, BUDGET = 'agent/core/member.c', 'agent/core/budget.c'

# what is broken, file, old text, new text, why no oracle can see it (None: it must be caught)
MUTANTS = [
    ('a failure does not stop the others', NODE, 'group_event(&n->group, now, GROUP_FAILED);\n    } else if',
     '(void) now;\n    } else if', 'the coordinator answers at once with a view that halts them; a unit test looks before it does'),
    ('the stop signal is not sent', GROUP, 'g->ops->signal(g->ctx, g->stop_signal);\n}\n\nstatic void do_signal_again',
     '}\n\nstatic void do_signal_again', None),
    ('no grace time: no deadline after the stop', GROUP, 'g->deadline = now + g->term_grace;', '(void) now;', None),
    ('SIGKILL at once', GROUP, 'g->deadline = now + g->term_grace;', 'g->deadline = now;', None),
    ('the grace time starts anew with each signal', GROUP, '(void) now; /* the grace time runs from the first signal */',
     'g->deadline = now + g->term_grace;', None),
    ('no SIGKILL when the time is up', GROUP, '[GROUP_TIMEOUT] = { GROUP_KILLING, do_kill },\n        [GROUP_GONE]    = { GROUP_SWEEPING',
     '[GROUP_TIMEOUT] = { GROUP_KILLING, NULL },\n        [GROUP_GONE]    = { GROUP_SWEEPING', None),
    ('what SIGKILL does not end is waited for', GROUP, '[GROUP_TIMEOUT] = { GROUP_ENDED, do_abandon }',
     '[GROUP_TIMEOUT] = { GROUP_KILLING, do_kill }', None),
    ('ended when the workers are gone, daemons or not', GROUP, '[GROUP_GONE]   = { GROUP_SWEEPING, do_sweep },',
     '[GROUP_GONE]   = { GROUP_ENDED, do_end },', None),
    ('a daemon that ignores SIGTERM is waited for', GROUP, 'g->deadline = now + g->sweep_grace;', 'g->deadline = UINT64_MAX; (void) now;',
     None),
    ('daemons are not told to end, only killed', GROUP, 'g->ops->sweep(g->ctx, SIGTERM);', '(void) g;',
     'they are gone in time all the same; a functional test sees the signal'),
    ('a second ^C does not kill', POLICY, 'if (!is_first)\n            return POLICY_SIGNAL_KILL;', '', None),
    ('the first ^C kills', POLICY, 'if (!is_first)\n            return POLICY_SIGNAL_KILL;', 'return POLICY_SIGNAL_KILL;', None),
    ('a second SIGTERM kills', POLICY, 'if (signum == SIGINT) {\n        bool is_first = p->last_int_at',
     'if (signum == SIGINT || p->is_stopped) {\n        bool is_first = !p->is_stopped && p->last_int_at', None),
    ('the last stop signal decides the status', POLICY, 'if (!p->is_stopped) {\n        p->is_stopped = true;\n        p->stop_signal = signum;',
     '{\n        p->is_stopped = true;\n        p->stop_signal = signum;', None),
    ('a stop does not forbid the restart', MEMBER, 'm->is_leaving = true;', '', None),
    ('a program that cannot start is tried again', BUDGET, 'if (why->is_final)\n        return BUDGET_FINAL;', '', None),
    ('that a program cannot start is not told', MEMBER, 'm->cause.is_final = m->node.policy.is_final;', '', None),
    ('a restart beside a worker in D state', NODE, 'if (n->is_stuck)\n        return NODE_END_STUCK;', '', None),
    ('one restart too many', BUDGET, 'if (b->n_used < max)', 'if (b->n_used <= max)', None),
    ('restarts are not counted', BUDGET, 'b->n_used++;', '', None),
    ('an old failure counts in the next attempt', POLICY, 'p->has_failure = p->is_final = false;', 'p->is_final = false;', None),
    ('an attempt that ended well is none', MEMBER, 'm->is_done = how == NODE_END_DONE;', '(void) how;', None),
    ('the last failure gives the code', POLICY, 'if (!p->has_failure)\n        p->failure_code = code;', 'p->failure_code = code;',
     'after the first failure every end is expected, so that there is only one to note'),
    ('a death by SIGTERM is a failure at once', POLICY, 'if (signum == SIGTERM) {', 'if (0) {', None),
    ('a held death is forgotten', POLICY, 'p->hold_until = now + POLICY_TERM_HOLD_MS;', '(void) now;', None),
    ('a held death is never a failure', POLICY, 'return p->is_stopped ? POLICY_EXPECTED : note_failure(p, 128u + SIGTERM);',
     'return POLICY_EXPECTED;', None),
    ('a stop does not end the hold', POLICY, 'p->stop_signal = signum;\n        p->hold_until = UINT64_MAX;', 'p->stop_signal = signum;',
     'the hold runs out by itself and is taken for a stop then: the end comes a moment later'),
    ('a real failure waits for a held one', POLICY, 'p->hold_until = UINT64_MAX; /* a real failure beside it', '/* a real failure beside it',
     'when the hold is over the failure is noted already, and the first one counts'),
    ('the attempt ends while a death is held', NODE, 'GROUP_STOPPING) && !is_held)', 'GROUP_STOPPING) && (is_held || true))', None),
    ('the status is 0 after a stop', POLICY, 'return p->is_final ? p->failure_code : 128u + (unsigned) p->stop_signal;', 'return 0;', None),
    ('a failure that a restart would follow decides over a stop', POLICY, 'return p->is_final ?', 'return p->has_failure ?', None),
    ('a stop hides that a program cannot start', POLICY, 'return p->is_final ? p->failure_code :', 'return',
     'the coordinator of one node ends the job before anybody can stop it; a unit test stops it in between'),
    ('a stop hides the last failure', MEMBER, 'return has_failed(m) ? m->view.cause.code :', 'return', None),
    ('a held death outlives its attempt', POLICY, 'void policy_ended(struct policy *p)\n{\n    p->hold_until = UINT64_MAX;',
     'void policy_ended(struct policy *p)\n{\n    (void) p;',
     'takes a halt with less grace time than the hold; a unit test has one'),
    ('a program that could not start once never can', POLICY, 'p->has_failure = p->is_final = false;', 'p->has_failure = false;',
     'there is a next attempt only when another node had failed before; a unit test has one'),
    ('ended before every process is gone', NODE, 'GROUP_KILLING) && is_empty)', 'GROUP_KILLING))', None),
    ('what nobody reads is given up', NODE, 'if (is_drained || now', 'if (true || now', None),
    ('what nobody reads is waited for after a stop', NODE, 'n->give_up_at = now + n->drain_grace;', 'n->give_up_at = UINT64_MAX;', None),
    ('a console that nobody reads is taken for a process that outlives SIGKILL', NODE,
     'n->group.deadline = UINT64_MAX;\n    if (n->policy', 'if (n->policy', None),
    ('exits are not counted', NODE, 'n->n_alive--;', '', None),
    ('forks during the kill are overlooked', NODE, 'if (g->state == GROUP_KILLING && !is_empty)', 'if (0)',
     'the simulated processes do not fork; the chaos test does'),
    ('a stop before the last exit is not passed on', NODE, 'n->group.stop_signal = signum;\n        group_event(&n->group, now, GROUP_STOP);',
     'n->group.stop_signal = signum;', None),
]


# the cores in which to plant, the other sources, how to run the simulation, the bugs
SUITES = [
    (CORES, SIM_NODE, [['-n', '20000']], MUTANTS),
    # that a node is not lost because we were away ourselves matters in one game of thousands: 8656 is one
    (CORES, SIM_RDZV, [['-n', '4000'], ['-s', '8656', '-n', '1'], ['-b', '64']], mutants_rdzv.MUTANTS),
]
NEVER = 8 # times the CPU of a whole run without a bug, and
NEVER_S = 2 # no less than so many seconds


def compile_one(source, target):
    """The compiler's complaint, or None."""
    made = subprocess.run(['gcc', '-std=c11', '-D_GNU_SOURCE', '-w', '-O1', '-I', ROOT, '-c', '-o', target, source],
                          capture_output=True, text=True)
    return made.stderr[:300] if made.returncode else None


def read_for(mutant):
    """The file in which the bug is to be planted, and why it cannot be, or None."""
    _, path, old, _, _ = mutant
    with open(os.path.join(ROOT, path)) as f:
        text = f.read()
    n = text.count(old)
    return text, None if n == 1 else 'the text to change stands %d times in %s' % (n, path)


def find_stale():
    stale = [(m, read_for(m)[1]) for suite in SUITES for m in suite[-1] if read_for(m)[1]]
    for m, why in stale:
        print('%s: %s' % (m[0], why))
    return bool(stale)


class Suite:
    """One simulation, compiled but for the file in which a bug is planted."""

    def __init__(self, folder, cores, sources, runs, mutants):
        self.folder, self.cores, self.runs, self.mutants = folder, cores, runs, mutants
        self.limit = None
        self.objects = {f: os.path.join(folder, f.replace('/', '-') + '.o') for f in cores + sources}

    def build(self, pool):
        for why in pool.map(lambda f: compile_one(os.path.join(ROOT, f), self.objects[f]), self.objects):
            if why:
                sys.exit(why)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        why = self.simulate(self.link('unchanged', self.objects))
        if why:
            sys.exit('without a bug: ' + why)
        self.limit = max(NEVER_S, round(NEVER * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)))

    def link(self, name, objects):
        program = os.path.join(self.folder, name)
        subprocess.run(['gcc', '-o', program, *objects.values()], check=True)
        return program

    def simulate(self, program):
        """What an oracle says, or None."""
        def be_limited():
            if self.limit:
                resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit + 1))

        for args in self.runs:
            r = subprocess.run([program] + args, capture_output=True, text=True, errors='replace', preexec_fn=be_limited)
            if r.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return 'never ends'
            if r.returncode:
                return r.stderr.strip().split('\n')[-1][:90] or 'exit status %d' % r.returncode
        return None

    def judge(self, number, mutant):
        """Is it as the list says, and what is to be said of it."""
        _, path, old, new, excuse = mutant
        text, why = read_for(mutant)
        if why:
            return False, why
        source = os.path.join(self.folder, 'mutant-%d.c' % number)
        with open(source, 'w') as f:
            f.write(text.replace(old, new))
        why = compile_one(source, source + '.o')
        if why:
            return False, 'does not compile: ' + why
        program = self.link('mutant-%d' % number, {**self.objects, path: source + '.o'})
        why = self.simulate(program)
        os.unlink(program)
        if excuse:
            return not why, 'not to be seen: ' + excuse if not why else 'caught after all: ' + why
        return bool(why), why or 'SURVIVED'


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ''
    if part == '--stale':
        return find_stale()
    good = bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for suite in SUITES:
            chosen = [m for m in suite[-1] if part in m[0]]
            with tempfile.TemporaryDirectory() as folder:
                s = Suite(folder, *suite)
                if chosen:
                    s.build(pool)
                for m, (is_good, why) in zip(chosen, pool.map(s.judge, range(len(chosen)), chosen)):
                    good += is_good
                    bad += not is_good
                    print('%-4s %s: %s' % ('ok' if is_good else 'FAIL', m[0], why), flush=True)
    print('%d passed, %d failed' % (good, bad))
    return bad > 0


if __name__ == '__main__':
    sys.exit(main())
