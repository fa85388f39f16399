"""Three contracts of the import linter.

"rooms": each room of the package imports only the rooms on its line. A room is a module or package directly under the
root package; `node.supervisor` is a room inside another one, and its line speaks of the rooms beside it. As soon as one
room inside another has a line, every package there needs one, and so does every module that a line names; other
modules stand above them all. Rooms that don't exist yet are no error. Modules whose name starts with `_` are open to
all, and the root package's own `__init__`, which re-exports lazily, is left out.

"circles": no module imports itself by way of others, late imports and those of types included.

"own": modules whose name is, or ends in `_` and, one of the endings (`routes`, `slot_tables`) are imported by their own
package, by modules of the same ending, and by the makers, which put those of all packages together.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

Rooms = dict[str, set[str]]
"""What each room may import, by its dotted name below the root package."""


def parse_rooms(lines: list[str]) -> Rooms:
    """Reads lines such as `core -> protocol dialect` or `core.life -> planning`."""
    allowed: Rooms = {}
    for line in lines:
        room, _, rest = line.partition("->")
        outer = room.strip().rpartition(".")[0]
        allowed[room.strip()] = {f"{outer}.{name}".removeprefix(".") for name in rest.split()}
    return allowed


def find_breaches(graph: ImportGraph, root: str, allowed: Rooms) -> list[str]:
    """Returns one sentence per import that the table doesn't allow, and per room that it doesn't know."""
    names = {module: module.removeprefix(f"{root}.") for module in graph.modules if module.startswith(f"{root}.")}
    missing = _needed(set(names.values()), allowed) - allowed.keys()
    breaches = [f"{root}.{room} has no line in the table of rooms" for room in sorted(missing)]
    for module, name in sorted(names.items()):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            ours, theirs = _sides(name, names.get(imported, name))
            if (
                ours not in allowed
                or theirs == ours
                or theirs.split(".")[-1].startswith("_")
                or theirs in allowed[ours]
            ):
                continue
            details = graph.get_import_details(importer=module, imported=imported)
            lines = ", ".join(str(line) for line in sorted({detail["line_number"] for detail in details}))
            breaches.append(f"{module} imports {imported} (line {lines}): {ours} may not import {theirs}")
    return breaches


def _sides(importer: str, imported: str) -> tuple[str, str]:
    """Returns the rooms, side by side, between which an import passes; equal ones if it stays within one."""
    ours, theirs = importer.split("."), imported.split(".")
    same = 0
    while same < min(len(ours), len(theirs)) - 1 and ours[same] == theirs[same]:
        same += 1
    if f"{imported}.".startswith(f"{importer}.") or f"{importer}.".startswith(f"{imported}."):
        return importer, importer
    return ".".join(ours[: same + 1]), ".".join(theirs[: same + 1])


def _needed(names: set[str], allowed: Rooms) -> set[str]:
    """Returns the rooms that exist and need a line."""
    parted = {room.rpartition(".")[0] for room in allowed}
    packages = {name.rpartition(".")[0] for name in names} - {""}
    tops = {name.split(".")[0] for name in names if not name.startswith("_")}
    beside = {name for name in packages if name.rpartition(".")[0] in parted}
    named = {name for line in allowed.values() for name in line if "." in name and name in names}
    return tops | beside | named


def find_circles(graph: ImportGraph, root: str, knots: set[str]) -> list[str]:
    """Returns one sentence per set of modules that import one another, outside the rooms in `knots`."""
    imports = {
        module: sorted(graph.find_modules_directly_imported_by(module) - {root}) for module in sorted(graph.modules)
    }
    circles = [sorted(circle) for circle in _knotted(imports) if len(circle) > 1]
    return [
        f"{' and '.join(circle)} import one another"
        for circle in sorted(circles)
        if not any(all(module.startswith(f"{root}.{knot}.") for module in circle) for knot in knots)
    ]


def _knotted(imports: dict[str, list[str]]) -> Iterator[set[str]]:
    """Yields the strongly connected components, by Kosaraju's algorithm."""
    order: list[str] = []
    _visit_all(imports, order.append)
    backward = defaultdict[str, list[str]](list)
    for module, targets in imports.items():
        for target in targets:
            backward[target].append(module)
    left = set(imports)
    for module in reversed(order):
        circle, ahead = set[str](), [module] if module in left else []
        while ahead:
            one = ahead.pop()
            if one in left:
                left.discard(one)
                circle.add(one)
                ahead += backward[one]
        yield circle


def _visit_all(imports: dict[str, list[str]], finish: Callable[[str], None]) -> None:
    """Calls `finish` with each module after all that it imports."""
    seen = set[str]()
    for module in imports:
        ahead = [(module, False)]
        while ahead:
            one, is_done = ahead.pop()
            if is_done:
                finish(one)
            elif one not in seen:
                seen.add(one)
                ahead.append((one, True))
                ahead += [(target, False) for target in imports.get(one, [])]


def find_foreign(graph: ImportGraph, root: str, endings: set[str], makers: set[str]) -> list[str]:
    """Returns one sentence per import of what is another package's own."""
    found: list[str] = []
    for module in sorted(graph.modules):
        ending = module.rpartition(".")[2].rpartition("_")[2]
        if ending not in endings or module.count(".") < 2:
            continue
        package = module.rpartition(".")[0]
        found += [
            f"{importer} imports {module}, which is {package}'s own"
            for importer in sorted(graph.find_modules_that_directly_import(module))
            if not f"{importer}.".startswith(f"{package}.")
            and importer.rpartition(".")[2].rpartition("_")[2] != ending
            and importer.removeprefix(f"{root}.") not in makers
        ]
    return found


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


class CirclesContract(Contract):
    """Settings: `knots`, rooms that have circles still, a list that only shrinks."""

    knots = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the linter's own signature
        root = self.session_options["root_packages"][0]
        circles = find_circles(graph, root, set(self.knots or ()))
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for sentence in check.metadata["circles"]:
            output.print_error(sentence, bold=False)


class OwnContract(Contract):
    """Settings: `endings` of the names of modules that are their package's own; `makers`, which may import them all."""

    endings = fields.SetField(subfield=fields.StringField())
    makers = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the linter's own signature
        root = self.session_options["root_packages"][0]
        foreign = find_foreign(graph, root, set(self.endings), set(self.makers))
        return ContractCheck(kept=not foreign, metadata={"foreign": foreign})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for sentence in check.metadata["foreign"]:
            output.print_error(sentence, bold=False)
