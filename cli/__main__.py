"""`python -m reset_cycles.cli` is the console script `reset-cycles`."""

from __future__ import annotations

import sys

from .main import main

sys.exit(main())
