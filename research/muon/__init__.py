"""What Muon with an average brings, and what it costs."""
