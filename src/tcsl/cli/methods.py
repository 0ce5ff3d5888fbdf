"""`tcsl methods`: what can be trained, what each needs, and where it comes from."""

from __future__ import annotations

from tcsl.cli import options
from tcsl.cli.options import print_json


def methods(as_json: options.Json = False) -> None:
    """List the methods: what each does, what it needs beside labels, where it comes from, and its presets.

    Example: tcsl methods --json
    """
    from tcsl.registry import METHODS

    found = {name: METHODS.get(name) for name in METHODS.names()}
    if as_json:
        print_json(
            {
                name: {
                    "title": method.title,
                    "summary": method.summary,
                    "needs": list(method.needs),
                    "reference": method.about.reference if method.about else "",
                    "options": sorted(method.options.model_fields) if method.options else [],
                    "presets": {
                        dataset: {"options": dict(preset.options), "source": preset.source}
                        for dataset, preset in method.presets.items()
                    },
                }
                for name, method in found.items()
            }
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, method in found.items():
        facts = [f"needs {', '.join(method.needs) or 'labels only'}"]
        if method.about:
            facts.append(f"from {method.about.reference}")
        if method.presets:
            facts.append(f"presets for {', '.join(method.presets)}")
        table.add_row(Text(name, "bold"), Text(method.summary).append("\n" + "; ".join(facts), "dim"))
    Console().print(table)
