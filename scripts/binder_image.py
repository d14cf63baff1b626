"""binder/Dockerfile, generated from Containerfile: its image for the user that Binder starts it as.

scripts/binder_image.py > binder/Dockerfile
"""

from pathlib import Path

_HEADER = """\
# Generated from Containerfile by scripts/binder_image.py. Do not edit.
"""
# Binder starts `jupyter notebook` as a user whose name and number it gives; this project uses
# JupyterLab, and its lock has no classic notebook.
_FOOTER = """\
RUN .venv/bin/uv pip install --quiet --python .venv/bin/python notebook jupyterhub
ARG NB_USER=jovyan
ARG NB_UID=1000
ENV USER=$NB_USER HOME=/opt/tsnrepro
RUN useradd --home-dir $HOME --uid $NB_UID $NB_USER && chown -R $NB_UID $HOME
USER $NB_USER
"""


def binder_dockerfile(containerfile: str) -> str:
    """Return the text of binder/Dockerfile for a Containerfile; its comments are left out."""
    lines = containerfile.splitlines(keepends=True)
    return _HEADER + "".join(line for line in lines if not line.startswith("#")) + _FOOTER


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    print(binder_dockerfile((root / "Containerfile").read_text(encoding="utf-8")), end="")
