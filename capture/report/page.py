"""A report as one HTML page that needs no network: data, style and script stand in it.

In: a `Report`. Out: the page. Texts of the stages are packed, and unpacked by the browser when somebody looks at them.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import os
import string

from ...runtime import compile_log
from .data import Facts
from .diagnostics import findings

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("base.js", "overview.js", "code.js", "picture.js", "memory.js", "compile.js", "start.js")
FRAME = '<iframe srcdoc="{0}" style="width:100%;height:680px;border:1px solid #8884;border-radius:10px" title="report"></iframe>'


def page(report: Facts) -> str:
    content = report.to_dict()
    content["findings"] = [one._asdict() for one in findings(report)]
    texts = [compress(graph.pop("texts")) for graph in content["graphs"]]
    return string.Template(part("page.html")).substitute(
        title=html.escape(report.title),
        style=part("page.css"),
        script="\n".join(map(part, SCRIPTS)),
        data=safe(content),
        texts="\n".join(f'<script type="text/plain" id="texts-{k}">{text}</script>' for k, text in enumerate(texts)),
    )


def write(report: Facts, path: str) -> str:
    compile_log.write_atomically(os.path.abspath(path), page(report).encode())
    return path


def embedded(report: Facts) -> str:
    """For notebooks: the page in a frame of its own, so that neither style nor script meets the notebook's."""
    return FRAME.format(html.escape(page(report), quote=True))


def safe(content: dict) -> str:
    """JSON that can stand in a script element."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def compress(texts: dict[str, str]) -> str:
    return base64.b64encode(gzip.compress(json.dumps(texts).encode(), 6, mtime=0)).decode()


@functools.cache
def part(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()
