"""Several nodes on one Linux machine, each with an address, a host name and a network of its own. Needs root.

lab.py makes, finds and ends a lab; holder.py is the process that it lives in; shaping.py is about rates and subnets;
engine.py is the engine over it.
"""
