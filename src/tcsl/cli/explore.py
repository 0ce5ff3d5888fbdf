"""`tcsl explore`: a run in the browser, with all images and with marks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcsl.cli import options
from tcsl.errors import TcslError

if TYPE_CHECKING:
    from tcsl.report.material import Material
    from tcsl.report.originals import Originals
    from tcsl.report.serve import Server


def explore(
    run: options.Run,
    port: Annotated[
        int | None,
        typer.Option(
            min=1024, max=65535, help="By default the first that is free from 8420 on.", metavar="N", show_default=False
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="Where the dataset is now, if it has moved since the run.", show_default=False),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Where a known dataset's files, or a table's images, are now, if they have moved.", show_default=False
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Open a run's page in the browser with every image at full size, and mark samples.

    Mark with a click on a star, with the key m on a sample, or all samples of a rectangle at once; a mark may have a
    note. Every change is saved at once in RUN/marks.parquet: index, id, label, note, time. The page filters by marks
    and saves them as CSV. Ctrl-C ends it.

    The images come from the run's data, which are loaded again as the run loaded them and must not have changed. Where
    they cannot be had, the page shows the thumbnails that the run kept, and says so.

    Only this machine can open it, and who knows the address: it listens on 127.0.0.1, under a key.

    Example: tcsl explore runs/demo

    Example: tcsl explore runs/birds --data /mnt/new/birds.csv --no-browser
    """
    from tcsl.report.marks import alone, marks_path, read_marks
    from tcsl.report.material import read_material
    from tcsl.report.serve import make_site, open_server

    material = read_material(run)
    marked = len(read_marks(run, material.scores))
    with open_server(port) as server:
        images, note = _images(run, material, data=data, root=root, quiet=quiet)
        server.site = make_site(material, images, note)
        if note:
            typer.echo(note)
        typer.echo(f"{run} is open at {server.address}")
        typer.echo(f"{marked:,} samples are marked; marks are saved in {marks_path(run)}")
        typer.echo("stop with Ctrl-C")
        if not no_browser:
            _open(server.address)
        _stopped_by_ctrl_c(server)
        server.serve_forever()
    with alone(run):  # a mark that is being saved
        marked = len(read_marks(run, material.scores))
    told = f"{marked:,} marked samples are in {marks_path(run)}" if marked else "nothing is marked"
    typer.echo(f"\nstopped; {told}")


def _stopped_by_ctrl_c(server: Server) -> None:
    """Have Ctrl-C end the serving; an exception in the midst of it could be lost in a callback."""
    import signal
    import threading

    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()  # it waits for the loop, which waits for us

    signal.signal(signal.SIGINT, stop)


def _images(
    run: Path, material: Material, *, data: str | None, root: Path | None, quiet: bool
) -> tuple[Originals | None, str]:
    """Return the full-size images, or None and what to say about it; where their place was named, it is an error."""
    from tcsl.progress import reading
    from tcsl.report.originals import open_originals, settings_at
    from tcsl.runs import RunFolder

    try:
        with reading(quiet=quiet) as progress:
            settings = settings_at(material.settings, data, root)
            images = open_originals(RunFolder.find(run), material.scores, settings, progress)
    except TcslError as error:
        if data is not None or root is not None:
            raise
        moved = (
            "" if not material.settings.data.name else ". If they have moved, name their place with --data or --root"
        )
        return None, f"Full-size images are not shown, only the thumbnails that the run kept: {error}{moved}"
    return images, "" if images else "The samples are rows of numbers: there are no images to show at full size"


def _open(address: str) -> None:
    """Open a browser, without waiting for it: one in the terminal ends only when it is left."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
