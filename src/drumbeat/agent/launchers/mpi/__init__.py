"""What a node does so that `mpirun` finds its ranks: which MPI there is, and the programs that mpirun calls.

`agent.remote` stands in for ssh and has mpirun's daemon started on another node; the daemon starts `child` once per
rank, which hands what MPI gave it over to `rank`, the rank itself, held by its keeper (launch/mpi.py).
"""
