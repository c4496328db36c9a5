"""Settings of the documentation site, which `make docs` builds. The pages are Markdown; docstrings are plain text."""

import re
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from sphinx import addnodes

import ctrobust
from ctrobust.attacks import Attack

project = "ctrobust"
author = "The ctrobust authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = ctrobust.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"ctrobust {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "default"
pygments_dark_style = "github-dark"

autosummary_generate = False
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
napoleon_custom_sections = [("Attributes", "params_style")]

nitpick_ignore_regex = [
    (r"py:.*", r"(?!ctrobust).*"),  # names of other packages: there is no network to look them up in
    (r"py:.*", r"ctrobust\.(?!\w+\.[A-Z]\w+$).*"),  # parts of the package that are not public
]


def escape_plain_text(text: str) -> str:
    """Escape what is markup in reStructuredText, except code between single backticks."""
    pieces = re.split("`([^`]+)`", text)
    for i, piece in enumerate(pieces):
        pieces[i] = f"``{piece}``" if i % 2 else re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", piece)
    return "".join(pieces)


def read_as_plain_text(_: object, what: str, __: str, documented: object, ___: object, lines: list[str]) -> None:
    """Keep docstrings from being read as markup, and list the public names of a module under its docstring."""
    in_example = False
    for i, line in enumerate(lines):
        if line.strip() in ("Example:", "Args:", "Attributes:", "Returns:", "Raises:"):
            in_example = line.strip() == "Example:"
        elif not in_example:
            lines[i] = escape_plain_text(line)
    if what == "module":
        public = {name: getattr(documented, name) for name in documented.__all__}  # type: ignore[attr-defined]
        names = [name for name, value in public.items() if isinstance(value, type | types.FunctionType)]
        lines += ["", ".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]


def show_fields(
    _: object, what: str, __: str, documented: object, ___: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Show the fields of an attack: its class checks the arguments of any call before they are set."""
    if what == "class" and isinstance(documented, type) and issubclass(documented, Attack):
        return (f"({', '.join(map(_field, fields(documented)))})" if is_dataclass(documented) else ""), returned
    return signature, returned


def _field(field: "Field[Any]") -> str:
    return field.name if field.default is MISSING else f"{field.name}={field.default!r}"


def hide_values(_: object, __: str, kind: str, content: Any) -> None:
    """Leave out the values of registries, which are long and contain addresses."""
    if kind == "data":
        for node in list(content.parent.findall(addnodes.desc_annotation)):
            if node.astext().startswith(" = "):
                node.parent.remove(node)


def setup(app: Any) -> None:
    """Connect before napoleon, which reads the sections of a docstring."""
    app.connect("autodoc-process-docstring", read_as_plain_text, priority=400)
    app.connect("autodoc-process-signature", show_fields)
    app.connect("object-description-transform", hide_values)
