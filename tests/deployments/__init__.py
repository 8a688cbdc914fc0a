"""Servers of others around TensorBoard: an object store, Jupyter. `make deployments` installs and runs them.

Not collected by a plain ``pytest``: the files' names are not test_*.
"""
