"""Real supervisors with their warm workers, and the agents' sides of them, over processes that are played.

The supervisors (`drumbeat.node.supervisor`), their sockets, locks and folders are real, and so is what an agent decides
about its supervisor. Played are the machine's processes, its memory and its clock, and the rest of an agent.

- machine: the processes of one user on one machine, and what a supervisor sees of them
- agents: an agent of one attempt on that machine
- laws: what must hold of all of them
"""
