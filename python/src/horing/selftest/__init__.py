"""``python -m horing.selftest``: whether the installed package works on this machine. See ``__main__``."""
