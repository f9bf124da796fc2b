"""Many submissions on many small workloads under many conditions, compared."""
