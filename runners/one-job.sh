#!/bin/bash
# One job on the machine with the GPU: one-job.sh RUNNER PLACE, by runners/systemd/autoresearch-job@.service. See runners/README.md.
#
# Says `ready`, reads the encoded configuration of one runner, runs its job in a fresh copy of RUNNER at PLACE, says `over STATUS`,
# and leaves PLACE empty. The configuration works for one job and names no key; it goes by the environment, since anybody on the
# machine may read a command line, and the runner takes it out of there before any job begins.
set -euo pipefail
runner=$1 place=$2

empty() { find "$place" -xdev -mindepth 1 -delete; }

empty
trap empty EXIT
cp -a --reflink=auto "$runner/." "$place"
cd "$place"
echo ready
if ! IFS= read -r -t 300 configuration || [ -z "$configuration" ]; then
    echo "one-job: nothing was handed over" >&2
    exit 1
fi
status=0
ACTIONS_RUNNER_INPUT_JITCONFIG=$configuration ./run.sh </dev/null >&2 || status=$?
echo "over $status"
