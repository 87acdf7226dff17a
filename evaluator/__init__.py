"""The judge: what a version of train.py is worth. Owned by people; no candidate may change it.

    prepare.py   corpus, tokenizer, splits
    measure.py   the supervisor: one process, one measurement
    bench.py     the sandboxed processes of one measurement, started ahead of need
    wire.py      its line to a sandboxed process: packets one way, memory files the other
    training.py  the candidate trains: the clock, the data, the checkpoint
    score.py     what the checkpoint is worth: distributions come in, the judge adds up
    audit.py     what a candidate must not get away with
    gate.py      measurements -> keep | discard | again

It imports `runners` (the contract of a measurement, and the sandbox) and nothing else of the project. Only the sandboxed
process ever imports torch.
"""
