#!/bin/sh
# The init methods of libccrun against torch.distributed's own reading of the same ones.
. "$(dirname "$0")/../functional/lib.sh"
limit 120

it 'every init method means what PyTorch takes it for, and is refused in its words' \
    "$PYTHON" -W ignore "$HERE/init_url.py" "$SUPPORT/initurl"
done_testing
