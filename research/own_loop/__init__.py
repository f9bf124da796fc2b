"""Chains of cycles beside other optimizers in loops of one's own."""
