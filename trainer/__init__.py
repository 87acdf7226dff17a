"""The thing under study. `train.py` is the only file that a candidate may edit; `session.py` is the contract it runs under.

This folder imports nothing else of the project, and nothing of the project imports `train.py`: it is a program for the sandbox.
"""
