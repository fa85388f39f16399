"""Reads TensorBoard's event files with TensorBoard's loader in a separate process; no other module imports it."""
