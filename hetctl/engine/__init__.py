"""Graph, plan, run and lock: what is done in which order, without knowing any resource kind.

The types it works on are in `hetctl.resources.base` and `hetctl.resources.provider`.
"""
