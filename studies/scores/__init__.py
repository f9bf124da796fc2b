"""How soon submissions reach their targets, compared as AlgoPerf does it."""
