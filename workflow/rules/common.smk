from pathlib import Path


def glob_files(folder, pattern, apart_from=()):
    """Return the files below a folder that match, sorted; caches and folders are no input."""
    return sorted(
        str(path)
        for path in Path(folder).glob(pattern)
        if path.is_file() and path.name not in apart_from and "__pycache__" not in path.parts
    )


def what_to_measure(wildcards):
    """Return the file that says which trials there are to be."""
    if wildcards.testbed in IMPORTED:
        return f"data/raw/{wildcards.testbed}/import.json"
    # The whole file: a changed campaign is incomplete until its new trials are measured.
    return f"config/campaigns/{wildcards.campaign}.yaml"
