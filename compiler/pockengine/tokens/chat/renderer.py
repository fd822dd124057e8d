"""Renders chat templates: the process in which programs that others wrote run, with bounds that the kernel keeps.

It is run as a file, alone, without the package around it. A line of JSON comes in, a line goes out: first the
templates, then a conversation each. Filters, functions and options are those that `transformers` gives to templates.
"""

import json
import resource
import signal
import sys
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils

BEGIN, END = "\ufdd0", "\ufdd1"
"""Around what `{% generation %}` holds: code points that are no characters, which no text has."""
_NOW = datetime.now()
"""One moment, so that what a template writes of it is the same in each rendering."""


class _RefusedError(jinja2.TemplateError):
    """The template called `raise_exception`."""


class _Generation(jinja2.ext.Extension):
    tags = {"generation"}  # noqa: RUF012 - as the library declares it

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: jinja2.runtime.Macro) -> str:
        return f"{BEGIN}{caller()}{END}"


class _Namespace(jinja2.utils.Namespace):
    """Without names that begin with an underscore, by which Python's inside could be reached."""

    def __init__(*given: Any, **named: Any) -> None:
        self, given = given[0], given[1:]
        values = dict(*given, **named)
        for name in values:
            _public(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _public(name)
        super().__setitem__(name, value)


def _public(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no '{name[:40]}'")


def _refuse(message: Any) -> NoReturn:
    raise _RefusedError(str(message))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = _tojson
    made.globals |= {
        "raise_exception": _refuse,
        "strftime_now": _NOW.strftime,
        "namespace": _Namespace,
        "dict": lambda *given, **named: dict(*given, **named),
    }
    return made


class _Templates:
    def __init__(self, order: dict[str, Any]) -> None:
        self._characters: int = order["characters"]
        self._given: dict[str, Any] = {**order["tokens"], **order["variables"]}
        environment = _environment()
        self._made = {name: environment.from_string(text) for name, text in order["templates"].items()}
        trees = {name: environment.parse(text) for name, text in order["templates"].items()}
        self.marks = {
            name: any(node.identifier.endswith("._Generation") for node in _extended(tree))
            for name, tree in trees.items()
        }
        read = set().union(*map(jinja2.meta.find_undeclared_variables, trees.values()))
        self.reads = sorted(read - environment.globals.keys())

    def render(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The text of messages, or the problem: `long` as soon as there are too many characters."""
        said = {"messages": asked["messages"], "tools": asked["tools"], "documents": None}
        pieces, count = [], 0
        made = self._made[asked["template"]]
        for piece in made.generate({**self._given, **said, "add_generation_prompt": asked["prompt"]}):
            pieces.append(piece)
            count += len(piece)
            if count > self._characters:
                return {"problem": "long"}
        return {"text": "".join(pieces)}


def _extended(tree: jinja2.nodes.Template) -> list[jinja2.nodes.ExtensionAttribute]:
    return list(tree.find_all(jinja2.nodes.ExtensionAttribute))


def _problem(error: Exception) -> dict[str, Any]:
    """What went wrong, as plain data."""
    if isinstance(error, MemoryError):
        return {"problem": "memory"}
    if isinstance(error, jinja2.TemplateSyntaxError):
        return {"problem": "syntax", "detail": f"line {error.lineno}: {(error.message or '')[:400]}"}
    kind = "refused" if isinstance(error, _RefusedError) else "failed"
    named = "" if isinstance(error, _RefusedError) else f"{type(error).__name__}: "
    return {"problem": kind, "detail": named + str(error)[:400]}


class _Server:
    def __init__(self) -> None:
        self._templates: _Templates | None = None

    def answer(self, line: str) -> str:
        """The reply to a line; the first holds the templates."""
        try:
            order = json.loads(line)
            if self._templates is None:
                self._templates = _Templates(order)
                return json.dumps({"marks": self._templates.marks, "reads": self._templates.reads})
            return json.dumps(self._templates.render(order))
        except Exception as error:  # a template may raise anything
            return json.dumps(_problem(error))


def main() -> None:
    """Serves until its input ends. `renderer.py SECONDS BYTES`: of processor time for a line, of memory in all. A line
    that takes longer is the end of the process, by SIGPROF."""
    seconds, most = int(sys.argv[1]), int(sys.argv[2])
    for kind, value in ((resource.RLIMIT_DATA, most), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = _Server()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        print(server.answer(line), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
