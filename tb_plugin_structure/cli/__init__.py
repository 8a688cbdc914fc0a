"""The command line, ``tb-structure``: read records from event files without TensorBoard running, compare, audit, gate.

``show``, ``diff``, ``audit`` and ``export`` need no torch; ``capture`` does. See ``docs/command_line.md``.
"""
