"""The vocabulary of the local model."""
