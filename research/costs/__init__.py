"""What the submission costs beyond bare optax: time and memory."""
