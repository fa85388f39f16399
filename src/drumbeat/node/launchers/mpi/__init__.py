"""A node's part in MPI: its MPI, and the programs that mpirun calls to reach the ranks.

The replacement of ssh (`node/launchers/remote`) has mpirun's daemon started on another node; the daemon starts
`mpirun_child` once per rank, which hands MPI's variables over to `rank`, the rank itself, held by its supervisor
(`launchers/mpi.py`).
"""
