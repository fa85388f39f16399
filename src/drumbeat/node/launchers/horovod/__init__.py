"""Horovod's rendezvous store, which runs beside the ranks of node 0."""
