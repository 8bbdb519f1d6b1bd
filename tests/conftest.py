"""What all tests share."""

from __future__ import annotations

import signal

pytest_plugins = ("tests.lab.fixtures",)

# A shell starts what it puts in the background with Ctrl-C ignored, and every process of ours inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
