"""Contracts that every adapter passes, fakes that pass them too, recorded incidents, and the simulator."""
