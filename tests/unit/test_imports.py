"""The house's one-way streets: errors ← model ← config, plan ← transport ← host ← fleet ← views, cli."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "remoterun"
LAYERS = ["errors", "model", "config plan", "transport", "host", "fleet", "views cli"]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
# Where a foreign package may be imported. The rest may be imported by anybody.
ONLY_IN = {
    "fabric": {"transport"},
    "paramiko": {"transport"},
    "click": {"cli"},
    "rich": {"views"},
    "textual": {"views"},
    "torch": set(),
    "trainer": set(),
}
IMPURE = {
    "os",
    "subprocess",
    "socket",
    "time",
    "random",
    "secrets",
    "fabric",
    "paramiko",
    "click",
    "threading",
    "pathlib",
}


def imports(file: Path) -> set[str]:
    """Every module that a file imports, inside functions too; not what only the type checker reads."""
    found: set[str] = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    only_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            only_types.update(inner for child in node.body for inner in ast.walk(child))
    for node in ast.walk(tree):
        if node in only_types:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def layer(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "remoterun" and len(parts) > 1 and parts[1] in LEVEL else None


def files() -> list[Path]:
    return sorted(file for file in ROOT.rglob("*.py") if file.parent != ROOT or file.name == "errors.py")


def test_imports_point_one_way() -> None:
    assert len(files()) > 20
    wrong = []
    for file in files():
        own = file.relative_to(ROOT).parts[0].removesuffix(".py")
        for module in imports(file):
            other = layer(module)
            # The command line shows values with the views; nothing else crosses within a level.
            if other is None or other == own or (own, other) == ("cli", "views"):
                continue
            if LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{file.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_foreign_packages_stay_in_their_rooms() -> None:
    wrong = []
    for file in files():
        own = file.relative_to(ROOT).parts[0]
        for module in imports(file):
            rooms = ONLY_IN.get(module.split(".")[0])
            if rooms is not None and own not in rooms:
                wrong.append(f"{file.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_plan_is_pure() -> None:
    wrong = [
        f"{file.name} imports {module}"
        for file in (ROOT / "plan").glob("*.py")
        for module in imports(file)
        if module.split(".")[0] in IMPURE and not (module.startswith("pathlib") and "Pure" in module)
        if module != "pathlib"
    ]
    assert not wrong


def test_modules_have_no_cycle() -> None:
    graph = {".".join(("remoterun", *file.relative_to(ROOT).with_suffix("").parts)): imports(file) for file in files()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"cycle: {' → '.join((*path, module))}"
        if module in done:
            return
        for other in graph[module]:
            if other in graph:
                visit(other, (*path, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_trainer_and_remoterun_do_not_know_each_other() -> None:
    for file in (ROOT.parent / "trainer").rglob("*.py"):
        assert not any(module.split(".")[0] == "remoterun" for module in imports(file)), file
