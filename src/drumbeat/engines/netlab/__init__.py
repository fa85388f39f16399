"""Several nodes on one Linux machine, each with its own address, host name and network. Needs root.

lab.py creates, finds and ends a lab and chooses its addresses; lab_holder.py is the process that holds it; shaping.py
limits the bandwidth of its links; engine.py is the engine over it.
"""
