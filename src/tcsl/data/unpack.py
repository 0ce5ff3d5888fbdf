"""Archives that are unpacked whole, and stay inside their folder."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PureWindowsPath

from tcsl.errors import InputError


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .tar, .tar.gz, .tgz, .zip or .gz file into a folder.

    Other files in the folder stay, those of the same name are replaced. The folder is not touched before everything
    is unpacked.
    """
    extract = next((function for end, function in _KINDS.items() if archive.name.endswith(end)), None)
    if extract is None:
        raise InputError(f"cannot unpack {archive}: its name must end in one of {', '.join(_KINDS)}")
    folder = folder.resolve()
    try:
        if archive.stat().st_size == 0:
            raise EOFError("it is empty")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent) as temporary:
            extract(archive, Path(temporary))
            _merge(Path(temporary), folder)
    except InputError:
        raise
    except tarfile.FilterError as error:
        raise _refused(archive, str(error)) from error
    except _DAMAGED as error:
        raise InputError(f"{archive} is damaged: {error}. Delete it and get it again") from error
    except OSError as error:
        raise InputError(f"could not unpack {archive} into {folder}: {error}") from error


def _untar(archive: Path, folder: Path) -> None:
    with open(archive, "rb") if archive.suffix == ".tar" else gzip.open(archive) as stream:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            tar.extractall(folder, filter=_inside)
            # tarfile takes a header that it cannot read for the end; the real end is a block of zeros.
            stream.seek(tar.offset)
            if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("its end is missing")
        while stream.read(1 << 20):  # to where gzip keeps its checksum
            pass


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    if member.name.startswith("/"):  # the data filter would only take the slash away
        raise tarfile.AbsolutePathError(member)
    return tarfile.data_filter(member, folder)


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            path = PureWindowsPath(member.filename)  # knows both slashes, and drives
            if path.anchor or ".." in path.parts:
                raise _refused(archive, f"{member.filename!r} would be outside the folder")
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(archive, f"{member.filename!r} is a link or a special file")
        file.extractall(folder)


def _gunzip(archive: Path, folder: Path) -> None:
    with gzip.open(archive) as source, open(folder / archive.stem, "wb") as place:
        shutil.copyfileobj(source, place)


_KINDS = {".tar": _untar, ".tar.gz": _untar, ".tgz": _untar, ".zip": _unzip, ".gz": _gunzip}
_DAMAGED: tuple[type[Exception], ...] = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError)
_DAMAGED += (zlib.error, lzma.LZMAError, RuntimeError, ValueError, OverflowError)  # from inside the libraries


def _refused(archive: Path, why: str) -> InputError:
    return InputError(f"{archive} is not safe and was not unpacked: {why}. Get it from a source that you trust")


def _merge(source: Path, folder: Path) -> None:
    """Move everything from one folder to another: folders are merged, files replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        place = folder / entry.name
        if entry.is_dir() and not entry.is_symlink() and place.is_dir():
            _merge(entry, place)
        else:
            os.replace(entry, place)
