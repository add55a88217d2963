"""The layer rule: runtime < eager < capture < inductor < cli, the face; no import upward, no cycle, wherever it stands."""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["runtime", "eager", "capture", "inductor", "cli"]
# Inside of a layer the folders (and modules beside them) are phases: each imports only what stands before it. Those of one row do
# not import each other in a circle.
PHASES = {
    "capture": [
        {"thread_local_state", "breaks", "shapes"},
        {"state", "fx", "report"},
        {"skipfiles", "bytecode", "guards"},
        {"graph"},
        {"variables"},
        {"frontend"},
        {"dynamo", "functorch"},
    ],
    "inductor": [
        {"source_text", "pass_manager"},
        {"loops"},
        {"graph", "schedule"},
        {"cpp"},
        {"runtime"},
        {"targets"},
        {"driver"},
        {"debug_backends", "tools"},
        {"triton"},
        {"backend"},
    ],
}
FACE = ("cli.",)  # what stands beside the public names, and may use them


def modules():
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(name, path):
    """Targets of all imports of a module, relative to the root package, wherever they stand."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                target = ".".join(base + (node.module.split(".") if node.module else []))
            elif node.module and node.module.split(".")[0] == "flambeau":
                target = ".".join(node.module.split(".")[1:])
            else:
                continue
            for alias in node.names:
                yield f"{target}.{alias.name}".strip("."), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "flambeau":
                    yield ".".join(alias.name.split(".")[1:]), node.lineno
        elif (target := by_name(node, package)) is not None:
            yield target, node.lineno


def by_name(node, package):
    """What `import_module(".a.b", __package__)` or `submodules` names by a constant text, or None."""
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", getattr(node.func, "id", "")) != "import_module":
        return None
    text = constant_text(node.args[0]) if node.args else None
    if text is None:
        return None
    level = len(text) - len(text.lstrip("."))
    if level:
        return ".".join([*package[: len(package) - level + 1], text[level:]])
    return text.removeprefix("flambeau.") if text.startswith("flambeau.") else None


def constant_text(node):
    """A constant, or `f"{__package__}.a"` as `.a`."""
    if isinstance(node, ast.JoinedStr) and len(node.values) == 2 and isinstance(node.values[0], ast.FormattedValue):
        package, rest = node.values[0].value, node.values[1]
        if getattr(package, "id", "") == "__package__" and isinstance(rest, ast.Constant):
            return rest.value
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def home(target, known):
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


@functools.cache
def edges():
    """Module -> {(module that it imports, line)}, for the modules of the layers."""
    known = dict(modules())
    result = {name: set() for name in known}
    for name, path in known.items():
        for target, line in imports(name, path):
            goal = home(target, known)
            assert goal or target.split(".")[0] not in LAYERS, f"{path}:{line} imports {target}, which does not exist"
            if goal and goal != name:
                result[name].add((goal, line))
    return result


def test_no_import_runs_upward():
    upward = []
    for name, goals in edges().items():
        for goal, line in goals:
            if LAYERS.index(goal.split(".")[0]) > LAYERS.index(name.split(".")[0]):
                upward.append(f"{name}:{line} imports {goal}")
    assert not upward, upward


def test_nothing_below_imports_the_face():
    for name, path in modules():
        if name.startswith(FACE):
            continue
        for target, line in imports(name, path):
            assert target.split(".")[0] in LAYERS, f"{path}:{line} imports the face ({target!r})"


def test_no_cycles():
    graph = {name: {goal for goal, _ in goals} for name, goals in edges().items()}
    state = {}

    def visit(name, trail):
        if state.get(name) == "done":
            return
        assert state.get(name) != "open", "import cycle: " + " -> ".join(trail[trail.index(name) :] + [name])
        state[name] = "open"
        for goal in sorted(graph.get(name, ())):
            visit(goal, trail + [name])
        state[name] = "done"

    for name in graph:
        visit(name, [])


def room(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


@pytest.mark.parametrize("layer", PHASES)
def test_phases_of_a_layer(layer):
    """Each folder of a layer has a place in the table, and no import runs back up or in a circle between folders."""
    place = {name: k for k, row in enumerate(PHASES[layer]) for name in row}
    arrows, upward = {}, []
    for name, goals in edges().items():
        for goal, line in goals:
            if (
                name.split(".")[0] == goal.split(".")[0] == layer
                and None not in (room(name), room(goal))
                and room(name) != room(goal)
            ):
                arrows.setdefault(room(name), set()).add(room(goal))
                if place[room(goal)] > place[room(name)]:
                    upward.append(f"{name}:{line} imports {goal}")
    assert not upward, upward
    for start in arrows:
        reached, todo = set(), [start]
        while todo:
            new = arrows.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        assert start not in reached, f"{layer}: {start} imports itself through {sorted(reached)}"


def test_torch_is_imported_nowhere_and_sympy_by_the_bridge_alone():
    bridge = ROOT / "capture" / "shapes" / "sympy_bridge.py"
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            roots = {name.split(".")[0] for name in names} & {"torch", "sympy"}
            assert roots <= ({"sympy"} if path == bridge else set()), path


def test_the_bridge_to_sympy_is_imported_where_it_is_used():
    """Inside of functions: nobody pays for sympy who does not ask for it."""
    for _, path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                assert not any("sympy_bridge" in text for text in (node.module or "", *(a.name for a in node.names))), path


def test_the_bytecode_package_is_imported_in_one_module():
    """Inside of functions there: nobody pays for it who compiles nothing."""
    for _, path in modules():
        tree = ast.parse(path.read_text())
        found = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            and any(alias.name.split(".")[0] == "bytecode" for alias in node.names)
            or isinstance(node, ast.ImportFrom)
            and not node.level
            and node.module.split(".")[0] == "bytecode"
        ]
        assert not found or path == ROOT / "capture" / "bytecode" / "code_units.py", path
        assert not any(node in tree.body for node in found), path


def test_python_version_branches_stay_in_one_module():
    for _, path in modules():
        text = path.read_text()
        if path != ROOT / "capture" / "bytecode" / "opcodes.py":
            assert "sys.version_info" not in text and "hexversion" not in text, path


def test_names_that_are_asked_of_api_are_there():
    """`api.py` makes its names of declarations, so no checker of types sees one that is not there."""
    from flambeau.eager import api

    asked = set()
    for path in (ROOT / "eager").rglob("*.py"):
        package, tree = path.relative_to(ROOT).parts[:-1], ast.parse(path.read_text())
        names = set()
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            source = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
            if "/".join(filter(None, source)) == "eager":
                names |= {each.asname or each.name for each in node.names if each.name == "api"}
            elif "/".join(source) == "eager/api":
                asked |= {(str(path), node.lineno, each.name) for each in node.names}
        asked |= {
            (str(path), node.lineno, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
        }
    assert len(asked) > 300
    assert not [each for each in sorted(asked) if not hasattr(api, each[2])]
