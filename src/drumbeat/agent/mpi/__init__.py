"""What a node does so that `mpirun` finds its ranks: which MPI there is, and the programs that mpirun calls.

`shell` stands in for ssh and asks the `door` of another node to start mpirun's daemon there; the daemon starts `child`
once per rank, which hands what MPI gave it over to `rank`, the rank itself, held by its keeper (launch/mpi.py).
"""
