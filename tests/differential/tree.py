"""Statements as trees: one tree is dipper's words, DuckDB's words, or a prepared statement with its values.

A tree can also be made smaller, which is what `minimise.py` does; therefore a part knows what kind of thing it is.
"""

import functools
import re

DIPPER, DUCK, PREPARED = range(3)


class NoDuck(Exception):
    """The statement means something else in DuckDB, or nothing."""


@functools.lru_cache(maxsize=100_000)
def segments(template):
    """Text and numbers of kids, in turns."""
    return tuple(int(s) if i % 2 else s for i, s in enumerate(re.split(r"\{(\d+)\}", template)))


class Node:
    """A template with `{0}`, `{1}`, ... for its kids. `duck`: another template for DuckDB, or None where it has none.

    `kind` is the kind of values of an expression, or a word such as "query" and "source": a part may take the place of another
    one of its kind. An `optional` part may be left out.
    """

    __slots__ = ("kind", "dipper", "duck", "kids", "optional")

    def __init__(self, kind, dipper, *kids, duck=True, optional=False):
        self.kind, self.dipper, self.kids, self.optional = kind, dipper, list(kids), optional
        self.duck = dipper if duck is True else duck

    def write(self, mode, out, values):
        template = self.duck if mode == DUCK else self.dipper
        if template is None:
            raise NoDuck
        for segment in segments(template):
            if type(segment) is int:
                self.kids[segment].write(mode, out, values)
            else:
                out.append(segment)

    def with_kids(self, kids):
        return Node(self.kind, self.dipper, *kids, duck=self.duck, optional=self.optional)


class List:
    """Kids with a separator; any of them may be left out while there are `least`."""

    __slots__ = ("kind", "separator", "kids", "least", "optional")

    def __init__(self, separator, kids, least=1, kind="list"):
        self.kind, self.separator, self.kids, self.least, self.optional = kind, separator, list(kids), least, False

    def write(self, mode, out, values):
        for i, kid in enumerate(self.kids):
            if i:
                out.append(self.separator)
            kid.write(mode, out, values)

    def with_kids(self, kids):
        return List(self.separator, kids, self.least, self.kind)


class Literal:
    """A value: its text in both dialects, and what is bound for it in a prepared statement. `bind` False: always text."""

    __slots__ = ("kind", "dipper", "duck", "value", "bind")
    kids, optional = (), False

    def __init__(self, kind, dipper, duck, value, bind=True):
        self.kind, self.dipper, self.duck, self.value, self.bind = kind, dipper, duck, value, bind

    def write(self, mode, out, values):
        if mode == DUCK:
            if self.duck is None:
                raise NoDuck
            out.append(self.duck)
        elif mode == PREPARED and self.bind:
            out.append("?")
            values.append(self.value)
        else:
            out.append(self.dipper)

    def with_kids(self, kids):
        return self


def text(kind, words):
    """Words without parts, the same in both dialects: a column's name, a table."""
    return Literal(kind, words, words, None, bind=False)


EMPTY = text("nothing", "")


def render(tree, mode=DIPPER, values=None):
    out = []
    tree.write(mode, out, values)
    return "".join(out)


def size(tree):
    return 1 + sum(map(size, tree.kids))
