"""What a node does so that `mpirun` finds its ranks: which MPI there is, and the programs that mpirun calls.

The stand-in for ssh (`node/launchers/remote`) has mpirun's daemon started on another node; the daemon starts
`mpirun_child` once per rank, which hands what MPI gave it over to `rank`, the rank itself, held by its supervisor
(`launchers/mpi.py`).
"""
