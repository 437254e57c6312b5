#!/usr/bin/env python3
"""Plants one bug at a time in the cores and runs the simulation on it: mutants.py [NAME-PART]

Every rule of a core has a planted bug here that an oracle must catch.  The few that no oracle can see say why; they must
survive, so that the reason stays true.  Prints a line each and "N passed, N failed"; exits 1 if any failed.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import mutants_rdzv

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
LONE = ['agent/core/' + f for f in ('node.c', 'group.c', 'policy.c')]
MANY = LONE + ['agent/core/' + f for f in ('rdzv.c', 'member.c', 'ranks.c', 'peers.c', 'budget.c', 'admit.c', 'proto.c', 'fields.c', 'rdzv_state.c')]
SOLO = [f for f in MANY if f not in LONE] + ['store/base/err.c', 'tests/sim/sim_solo.c']
SIM_RDZV = ['tests/sim/sim_%s.c' % f for f in ('rdzv', 'world', 'check', 'takeover', 'queue')] + ['store/base/err.c']
GROUP, NODE, POLICY = 'agent/core/group.c', 'agent/core/node.c', 'agent/core/policy.c'

# what is broken, file, old text, new text, why no oracle can see it (None: it must be caught)
MUTANTS = [
    ('a failure does not stop the others', NODE, 'group_event(&n->group, now, GROUP_FAILED);\n    } else if',
     '(void) now;\n    } else if', None),
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
    ('a stop does not forbid the restart', POLICY, 'p->is_final || p->is_stopped ||', 'p->is_final ||', None),
    ('a program that cannot start is tried again', POLICY, 'p->is_stuck || p->is_final ||', 'p->is_stuck ||', None),
    ('a restart beside a worker in D state', POLICY, 'p->is_stuck || p->is_final ||', 'p->is_final ||', None),
    ('one restart too many', POLICY, 'p->n_restarts >= p->max_restarts)\n        return POLICY_FINISH', 'p->n_restarts > p->max_restarts)\n        return POLICY_FINISH',
     None),
    ('restarts are not counted', POLICY, 'p->n_restarts++;', '', None),
    ('an old failure counts in the next attempt', POLICY, 'p->n_restarts++;\n    p->has_failure = false;', 'p->n_restarts++;', None),
    ('a restart after success', POLICY, '!p->has_failure || p->n_restarts', 'p->n_restarts', None),
    ('the last failure gives the code', POLICY, 'if (!p->has_failure)\n        p->failure_code = code;', 'p->failure_code = code;',
     'after the first failure every end is expected, so that there is only one to note'),
    ('an echo of the stop is a failure', POLICY, 'if (is_stopping || p->is_stopped)\n        return POLICY_EXPECTED;', '(void) is_stopping;', None),
    ('a death by SIGTERM is a failure at once', POLICY, 'if (signum == SIGTERM) {', 'if (0) {', None),
    ('a held death is forgotten', POLICY, 'p->hold_until = now + POLICY_TERM_HOLD_MS;', '(void) now;', None),
    ('a held death is never a failure', POLICY, 'return p->is_stopped ? POLICY_EXPECTED : note_failure(p, 128u + SIGTERM);',
     'return POLICY_EXPECTED;', None),
    ('a stop does not end the hold', POLICY, 'p->stop_signal = signum;\n        p->hold_until = UINT64_MAX;', 'p->stop_signal = signum;',
     'the hold runs out by itself and is taken for a stop then: the end comes a moment later'),
    ('a real failure waits for a held one', POLICY, 'p->hold_until = UINT64_MAX; /* a real failure beside it', '/* a real failure beside it',
     'when the hold is over the failure is noted already, and the first one counts'),
    ('the attempt ends while a death is held', NODE, 'GROUP_STOPPING) && !is_held)', 'GROUP_STOPPING) && (is_held || true))', None),
    ('the status is 0 after a stop', POLICY, 'if (p->is_stopped)\n        return 128u + (unsigned) p->stop_signal;', '', None),
    ('a failure that a restart would follow decides over a stop', POLICY, 'return p->has_failure && (is_last || !p->is_stopped);',
     '(void) is_last;\n    return p->has_failure;', None),
    ('a stop hides the last failure', POLICY, 'return p->has_failure && (is_last || !p->is_stopped);',
     '(void) is_last;\n    return p->has_failure && !p->is_stopped;', None),
    ('an unstartable attempt waits for an exit', NODE, 'if (!n->is_finished && n->n_alive == 0 && g->state == GROUP_STOPPING && n->policy.hold_until == UINT64_MAX)', 'if (0)', None),
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
    (LONE, ['tests/sim/sim_node.c'] + SOLO, [['-n', '20000'], ['-n', '20000', '-m']], MUTANTS),
    (MANY, SIM_RDZV, [['-n', '4000'], ['-b', '200']], mutants_rdzv.MUTANTS),
]


def simulate(program, runs):
    for args in runs:
        try:
            r = subprocess.run([program] + args, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return 'never ends'
        if r.returncode:
            return r.stderr.strip().split('\n')[-1][:90] or 'exit status %d' % r.returncode
    return None


def run(suite, mutant):
    cores, sources, runs, _ = suite
    name, path, old, new, excuse = mutant
    with tempfile.TemporaryDirectory() as d:
        for f in cores:
            os.makedirs(os.path.join(d, os.path.dirname(f)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, f), os.path.join(d, f))
        with open(os.path.join(d, path)) as f:
            text = f.read()
        if text.count(old) != 1:
            return False, 'the text to change stands %d times in %s' % (text.count(old), path)
        with open(os.path.join(d, path), 'w') as f:
            f.write(text.replace(old, new))
        build = ['gcc', '-std=c11', '-D_GNU_SOURCE', '-w', '-O1', '-I', d, '-I', ROOT, '-o', d + '/sim']
        build += [os.path.join(ROOT, f) for f in sources] + [os.path.join(d, f) for f in cores]
        made = subprocess.run(build, capture_output=True, text=True)
        if made.returncode:
            return False, 'does not compile: ' + made.stderr[:200]
        why = simulate(d + '/sim', runs)
    if excuse:
        return not why, 'not to be seen: ' + excuse if not why else 'caught after all: ' + why
    return bool(why), why or 'SURVIVED'


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ''
    chosen = [(suite, m) for suite in SUITES for m in suite[3] if part in m[0]]
    good = 0
    for suite, m in chosen:
        is_good, why = run(suite, m)
        good += is_good
        print('%-4s %s: %s' % ('ok' if is_good else 'FAIL', m[0], why), flush=True)
    print('%d passed, %d failed' % (good, len(chosen) - good))
    return good != len(chosen)


if __name__ == '__main__':
    sys.exit(main())
