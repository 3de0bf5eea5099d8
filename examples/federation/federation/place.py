"""The live federation: two sites, each one processor of this machine, and three tasks.

The networks are wider than those of the virtual clock, so that a round takes half a second and more. Rounds of
milliseconds would be disturbed by other processes.
"""
SITES = 2
SPLIT = "dirichlet"
TASKS = ("letters", "satellite", "mnist")
WIDTH = 1024
EPOCHS = 1
BATCHES = (16, 32, 128, 1024)
SEEDS_PLAYED = (1, 2, 3, 4, 5)
"""The seeds of the runs."""

DOWN_BPS = (64.0e6, 48.0e6)
UP_BPS = (32.0e6, 22.0e6)
"""The sites' links, bit/s: transfers of a round take about as long as its training."""
