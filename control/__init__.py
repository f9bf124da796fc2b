"""Pure decisions: when a cycle ends and what follows it."""
