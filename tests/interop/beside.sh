#!/bin/sh
# The same jobs under torchrun itself: what their workers see, what comes to the console, which files there are, which
# signals arrive. beside_jobs.py lists the jobs, and where ccrun means to be different.
. "$(dirname "$0")/../functional/lib.sh"
limit 240
getent hosts "$(hostname)" >/dev/null ||
    skip_all "this host's own name, $(hostname), does not resolve: torchrun's workers would not find its store"

it 'the jobs run under torchrun' "$PYTHON" "$HERE/beside.py" run torchrun "$SHARED/jobs"
it 'and under ccrun' "$PYTHON" "$HERE/beside.py" run ccrun "$SHARED/jobs"
it 'what they left can be compared' "$PYTHON" "$HERE/beside.py" same "$SHARED/jobs"
for job in $("$PYTHON" "$HERE/beside.py" jobs); do
    it "the same as under torchrun: $(echo "$job" | tr _ ' ')" \
        sh -c "[ -e '$SHARED/jobs/$job.differs' ] && ! grep . '$SHARED/jobs/$job.differs'"
done
done_testing
