"""The commands: each reads its arguments, calls an operation and prints what came of it."""
