"""How a keeper (and an errand) starts processes, holds on to all that comes of them, ends it, and knows it again.

`ranks` and `starter` start; `confinement` holds, by `namespaces` or `cgroups` where the machine has them; `segments`
and `ending` clear up; `records` is what is on disk, `door` where an agent meets its keeper, `bell` hears signals.
"""
