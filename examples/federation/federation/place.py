"""The live federation: two sites, each one processor of this machine, and three tasks.

The networks are wider than those of the virtual clock, so that a round takes seconds. Rounds of milliseconds would be
disturbed by other processes.
"""
SITES = 2
SPLIT = "dirichlet"
TASKS = ("letters", "satellite", "mnist")
WIDTH = 512
EPOCHS = 1
BATCHES = (16, 32, 64, 256)
SEEDS_PLAYED = (1, 2)
"""The seeds of the runs."""

DOWN_BPS = (16.0e6, 12.0e6)
UP_BPS = (8.0e6, 5.6e6)
"""The sites' links, bit/s: transfers of a round take about as long as its training."""
