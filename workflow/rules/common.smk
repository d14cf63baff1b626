from pathlib import Path


def glob_files(folder, pattern, apart_from=()):
    """Return the files below a folder that match, sorted; caches and folders are no input."""
    return sorted(
        str(path)
        for path in Path(folder).glob(pattern)
        if path.is_file() and path.name not in apart_from and "__pycache__" not in path.parts
    )
