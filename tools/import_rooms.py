"""The import linter's contract "rooms": each room of the package imports only the rooms on its line.

A room is a module or package directly under the root package. Rooms that don't exist yet are no error; a room that
exists and has no line is. The root package's own `__init__` re-exports lazily and is left out.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def parse_rooms(lines: list[str]) -> dict[str, set[str]]:
    """What each room may import, from lines such as `core -> protocol spec`."""
    allowed: dict[str, set[str]] = {}
    for line in lines:
        room, _, rest = line.partition("->")
        allowed[room.strip()] = set(rest.split())
    return allowed


def find_breaches(graph: ImportGraph, root: str, allowed: dict[str, set[str]]) -> list[str]:
    """One sentence per import that the table doesn't allow, and per room that it doesn't know."""
    rooms = {name: name.removeprefix(f"{root}.").split(".")[0] for name in graph.modules if name.startswith(f"{root}.")}
    existing = {room for room in rooms.values() if not room.startswith("_")}
    breaches = [f"{root}.{room} has no line in the table of rooms" for room in sorted(existing - allowed.keys())]
    for module, room in sorted(rooms.items()):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            other = rooms.get(imported, room)
            if room not in allowed or other == room or other.startswith("_") or other in allowed[room]:
                continue
            details = graph.get_import_details(importer=module, imported=imported)
            lines = ", ".join(str(line) for line in sorted({detail["line_number"] for detail in details}))
            breaches.append(f"{module} imports {imported} (line {lines}): {room} may not import {other}")
    return breaches


class RoomsContract(Contract):
    """Settings: `rooms`, a list of lines `room -> rooms that it may import`."""

    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the linter's own signature
        root = self.session_options["root_packages"][0]
        breaches = find_breaches(graph, root, parse_rooms(self.rooms))
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for sentence in check.metadata["breaches"]:
            output.print_error(sentence, bold=False)
