"""What shells and man need of our commands, made of the commands themselves.

python -m tests.cli.shell_files    writes share/
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.core import generate_man_page

from slurm_ofu import __version__
from slurm_ofu.cli.admin import main as admin
from slurm_ofu.cli.node import main as node
from slurm_ofu.cli.report import report

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS: dict[str, click.Command] = {"ofu-report": report, "ofu-admin": admin, "ofu-node": node}
#: Where each shell looks for them, under a prefix such as /usr. In zsh a file has the name of its function:
#: else the second Tab only registers it.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}_completion",
    "fish": "share/fish/vendor_completions.d/{}.fish",
}


def completion_path(shell: str, command: str) -> str:
    """Where the completion of a command lies."""
    return COMPLETIONS[shell].format(command.replace("-", "_") if shell == "zsh" else command)


def shell_files() -> dict[str, str]:
    """Every file by its path."""
    return {**dict(_completions()), **dict(_man_pages())}


def _completions() -> Iterator[tuple[str, str]]:
    for name, command in COMMANDS.items():
        for shell in COMPLETIONS:
            kind = get_completion_class(shell)
            assert kind is not None
            variable = f"_{name}_COMPLETE".replace("-", "_").upper()
            yield completion_path(shell, name), _source(kind(command, {}, name, variable))


def _source(completion: click.shell_completion.ShellComplete) -> str:
    """Its script. Click's own way to it starts a bash to see how old that is: no matter for a file."""
    text = completion.source_template % completion.source_vars()
    # In fish click's own splits at every comma, so that a list like -s CD,F would lose its end.
    return text.replace('(string split "," $completion)', '(string split -m 1 "," $completion)')


def _man_pages() -> Iterator[tuple[str, str]]:
    for name, command in COMMANDS.items():
        yield from _pages_of(click.Context(command, info_name=name, **command.context_settings))


def _pages_of(context: click.Context) -> Iterator[tuple[str, str]]:
    command = context.command
    given = command.help, command.short_help
    command.short_help = command.get_short_help_str(limit=200).rstrip(".")
    command.help = _as_roff(command.help or "")
    try:
        page = generate_man_page(context, version=f"slurm-ofu {__version__}", date=" ")
    finally:
        command.help, command.short_help = given
    yield f"share/man/man1/{context.command_path.replace(' ', '-')}.1", page.replace(".PP\n.SS", ".SS")
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            yield from _pages_of(click.Context(part, info_name=name, parent=context, **part.context_settings))


def _as_roff(text: str) -> str:
    """Help as the body of a manual page: click's \\b keeps the lines of a paragraph as they are."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    lines = [re.sub(r"^([.'])", r"\\&\1", line.replace("\\", "\\e")) for line in text.splitlines()]
    if not lines[0].strip().startswith("\b"):
        return "\n".join(line.strip() for line in lines)
    title, *rest = lines[1:]
    indented = rest and all(line.startswith("  ") for line in rest) and not title.startswith(" ")
    kept = [f"\\&{line}" if line.startswith(" ") else line for line in (rest if indented else [title, *rest])]
    return "\n".join([*([f".SS {title}"] if indented else []), ".nf", *kept, ".fi"])


def main() -> None:
    """Write them all, and take away those of commands that are gone."""
    files = shell_files()
    for path in (*ROOT.glob("share/man/man1/*"), *ROOT.glob("share/*/*s*/*ofu*")):
        if str(path.relative_to(ROOT)) not in files:
            path.unlink()
    for name, text in files.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
