"""What tests use of a program: names that they do not define themselves."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys

__all__ = ["names_meant"]


def names_meant(tests: str) -> tuple[list[str], list[str]]:
    """The program's names, and modules of the standard library that the tests take for imported.

    >>> names_meant("assert double(2) == 4 and math.isclose(half(1), 0.5)")
    (['double', 'half'], ['math'])

    Tests that use no name of the program test a function that is called as one of Python's (`sum`).
    """
    try:
        tree, free = ast.parse(tests), _free(symtable.symtable(tests, "tests.py", "exec"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], []  # they will fail when they are run
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    before_dots = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    alone = {node.id for node in names if id(node) not in before_dots}
    modules = (free & sys.stdlib_module_names) - alone
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    own = free - modules - vars(builtins).keys()
    return sorted(own or free & called), sorted(modules)


def _free(table: symtable.SymbolTable) -> set[str]:
    defined = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return _global_names(table) - defined


def _global_names(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    here = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
    return here.union(*(_global_names(child) for child in table.get_children()))
