"""Small synthetic data sets in the files that the real benchmark reads.

A module per workload, named as the benchmark names it. Each has

- `DEFAULT_SIZES`, the number of examples if none is asked for,
- `make_data(seed, sizes)`, which gives a `data_set.SmokeData`.
"""

WORKLOADS = ('mnist', 'ogbg', 'wmt')
