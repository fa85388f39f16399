"""Starts processes, holds on to all that comes of them, ends it, and finds it again: the keeper, and errands.

`ranks` and `starter` start processes; `confinement` holds them, by `namespaces` or `cgroups` where the machine has
those; `shared_memory` clears up; `records` is what is on disk, `listener` where an agent meets its keeper.
"""
