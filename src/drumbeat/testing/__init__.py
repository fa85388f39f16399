"""What ships for testing: the contracts that every adapter passes, and fakes that pass them too."""
