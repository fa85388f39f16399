"""Several nodes on one Linux machine, each with an address, a host name and a network of its own. Needs root.

lab.py makes, finds and ends a lab and chooses its addresses; lab_holder.py is the process that it lives in; shaping.py
limits the bandwidth of its links; engine.py is the engine over it.
"""
