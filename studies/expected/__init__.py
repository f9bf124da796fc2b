"""How far runs that reach their target have come by when, and tau from that."""
