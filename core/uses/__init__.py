"""Forms of parameters by what a model does with them."""
