"""The documentation site; ``scripts/docs`` builds it. Nothing is fetched from a network."""

import os
import re
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))
from repository_links import DOCUMENTED

# Programs that the notebook and the drawing start.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = "tsnrepro"
author = "The tsnrepro authors"
project_copyright = author
version = release = version_of("tsnrepro")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.graphviz",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "from_the_code",
    "repository_links",
]
exclude_patterns = ["_ext"]

# --- pages ----------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
graphviz_output_format = "svg"

# --- the notebook ---------------------------------------------------------------------------------

# It measures, so it runs anew in each build, in a copy of the repository: see from_the_code.py.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_ipywidgets_js = {}  # they would come from a network, and the notebook has none
nb_merge_streams = True

# --- the reference --------------------------------------------------------------------------------

autosummary_generate = True
# The former build's pages, of which a module may be gone.
shutil.rmtree(DOCS / "reference" / "generated", ignore_errors=True)
templates_path = ["_templates"]
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    # Of every pydantic model.
    "exclude-members": "model_config, model_post_init",
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
numpydoc_show_class_members = False
default_role = None

# Links are checked (-n). Types of signatures are written by autodoc: those of other packages, whose
# inventories are on a network, and of modules that the reference leaves out lead nowhere.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:(class|obj|data)", r"(?!tsnrepro\.).*|.*\._\w+"),
    (r"py:.*", rf"(?!({'|'.join(map(re.escape, sorted(DOCUMENTED)))})\.)tsnrepro\..*"),
]

# --- how it looks ---------------------------------------------------------------------------------

html_theme = "furo"
html_title = "tsnrepro"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
