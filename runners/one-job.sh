#!/bin/bash
# One job on the machine with the GPU: one-job.sh RUNNER PLACE, by runners/systemd/autoresearch-job@.service. See runners/README.md.
#
# Says `ready`, reads the encoded configuration of one runner, runs its job in a fresh copy of RUNNER at PLACE, says `over STATUS`,
# and leaves PLACE empty. The configuration works for one job and names no key. It goes by the environment, since anybody on the
# machine may read a command line; processes of the same user can still read it in /proc. Candidates cannot: a sandbox has
# process numbers of its own.
set -euo pipefail
exec 3>&- 4>&1 >&2 # 3: the connection once more, by systemd; 4: what the keeper hears, which is our own words alone
runner=$1 place=$2

empty() { find "$place" -xdev -mindepth 1 -delete; }

empty
trap empty EXIT
cp -a --reflink=auto "$runner/." "$place"
cd "$place"
echo ready >&4
if ! IFS= read -r -t 300 configuration || [ -z "$configuration" ]; then
    echo "one-job: nothing was handed over" >&2
    exit 1
fi
status=0
ACTIONS_RUNNER_INPUT_JITCONFIG=$configuration ./run.sh </dev/null 4>&- || status=$?
echo "over $status" >&4
