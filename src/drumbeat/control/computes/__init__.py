"""The computes: their engines and machines, and what becomes of a compute whose engine cannot be made."""
