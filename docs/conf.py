"""How the documentation is built: `make docs`, from pages, docstrings, results and notebooks, without a network."""

import logging
import os
import sys
from pathlib import Path

import bayes_tacit

sys.path.insert(0, str(Path(__file__).parent))

# Sphinx shows what libraries log when they are imported.
for library in ("arviz", "pytensor"):
    logging.getLogger(library).setLevel(logging.WARNING)

# LiteLLM asks a server for prices as it is loaded, unless it has to take its own.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

project = "bayes_tacit"
author = "The bayes_tacit developers"
version = release = bayes_tacit.__version__
html_title = f"bayes_tacit {release}"

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_nb", "made_pages"]
# The source is the repository, so that a link to another file means the same here and on a code host.
root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/*.ipynb", "simulations/results/*/*.md", "*.md"]
exclude_patterns = ["docs/_build", "README.md", ".venv", "dist"]
html_theme = "furo"
html_show_sourcelink = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"

# A name in backquotes is a link where it is one of ours, and code where it is not.
default_role = "py:obj"
python_use_unqualified_type_names = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
