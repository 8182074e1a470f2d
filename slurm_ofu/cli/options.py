"""What our commands share: exit codes, and how they read lists."""

import io
import os
import sys
from typing import Any, NoReturn

import click

from slurm_ofu.errors import NotPermitted, OfuError, StoreError, UsageError

EXIT_OK = 0
EXIT_USAGE = 1
EXIT_NOTHING = 2  # nothing matches
EXIT_MALFORMED_ID = 3
EXIT_STORE = 4
EXIT_NOT_PERMITTED = 5
EXIT_INTERRUPTED = 130


class MalformedJobId(UsageError):
    """Text that cannot be a Slurm job id."""


class _ExitCodes(click.Command):
    """Our exit codes: errors are one message on stderr, a closed pipe is none at all."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run and leave. Takes what ``click.Command.main`` takes, but is always "standalone"."""
        sys.exit(self._exit_code(*args, **{**extra, "standalone_mode": False}))

    def _exit_code(self, *args: Any, **extra: Any) -> int:
        if sys.stdout is None:  # closed by whoever started us, as >&- does
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for as long as we live
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal may not know every character
        stdout = sys.stdout
        try:
            code = super().main(*args, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            return EXIT_USAGE
        except OfuError as error:
            click.echo(f"{self.name}: {error}", err=True)
            return exit_code_of(error)
        except (click.Abort, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except SystemExit as leaving:
            if sys.stdout is not stdout:  # click's mark of a closed pipe; its own exit code would be 1
                return _closed_pipe()
            return _int(leaving.code)
        except BrokenPipeError:
            return _closed_pipe()
        except OSError as error:  # our rooms translate those of what they read: what is left is stdout's
            _discard_output()
            click.echo(f"{self.name}: cannot write: {error.strerror}", err=True)
            return EXIT_USAGE
        return _int(code)


class OfuCommand(_ExitCodes):
    """A command with our exit codes."""


class OfuGroup(_ExitCodes, click.Group):
    """A group of commands with our exit codes."""


config_option = click.option(
    "--config", metavar="FILE", help="Configuration file. [$OFU_CONFIG, else /etc/slurm-ofu/slurm-ofu.toml]"
)


def exit_code_of(error: OfuError) -> int:
    """The documented exit code of an error."""
    if isinstance(error, MalformedJobId):
        return EXIT_MALFORMED_ID
    if isinstance(error, NotPermitted):
        return EXIT_NOT_PERMITTED
    return EXIT_STORE if isinstance(error, StoreError) else EXIT_USAGE


def _int(code: object) -> int:
    return code if isinstance(code, int) else EXIT_OK


def _closed_pipe() -> int:
    """The reader has seen enough."""
    _discard_output()
    return EXIT_OK


def _discard_output() -> None:
    """Leave nothing to be flushed when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def comma_lists(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> tuple[str, ...]:
    """A click callback: the names of a repeatable option with commas, each once, in their order.

    An empty name is an error: an empty list would select everything.
    """
    names = _split(lists)
    if "" in names:
        raise click.BadParameter("a name is empty", ctx, param)
    if not "".join(names).isprintable():
        raise click.BadParameter(f"{', '.join(map(ascii, names))}: not a printable name", ctx, param)
    return names


def _split(lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for names in lists for name in names.split(",")))
