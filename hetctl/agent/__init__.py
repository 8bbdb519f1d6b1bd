"""What runs on a node: one process for each session, standard library only, Python 3.10 or newer.

The sources of this package travel to the node as data (`hetctl.transport.bundle`); nothing of hetctl
imports it.
"""
