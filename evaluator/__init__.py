"""The judge: what a version of train.py is worth. Owned by people; no candidate may change it.

    prepare.py   corpus, tokenizer, splits
    measure.py   the supervisor: one process, one measurement
    defences.py  its rules, each of which can be switched off to show what it is for
    bench.py     the sandboxed processes of one measurement, started ahead of need
    contention.py  what others did to a measurement, and what it really cost
    wire.py      its line to a sandboxed process: packets one way, memory files the other
    training.py  the candidate trains: the clock, the data, the checkpoint
    scorer.py    a process that answers for windows of text
    score.py     what the checkpoint is worth: distributions come in, the judge adds up
    bits.py      the arithmetic of that
    shelf.py     what the tokens cost under code that was measured before
    inert.py     what a candidate printed, made harmless
    audit.py     what a candidate must not get away with
    gate.py      measurements -> keep | discard | again

It imports `runners` (the contract of a measurement, and the sandbox) and nothing else of the project. Only the sandboxed
process ever imports torch.
"""
