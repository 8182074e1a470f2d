"""Long options by a beginning."""

import pytest
from click import Option

from slurm_ofu.cli.abbreviations import spelled_out

OPTIONS = [
    Option(["-S", "--starttime"]),
    Option(["-s", "--state"]),
    Option(["-A", "--account", "--accounts"]),
    Option(["-u", "--uid", "--user"]),
    Option(["-n", "--noheader"], is_flag=True),
    Option(["-N", "--nodelist"]),
    Option(["--name"]),
]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--start now", "--starttime now"),
        ("--start=now", "--starttime=now"),
        ("--sta CD", "--sta CD"),  # either of two: click says that there is no such option
        ("--acc physics --u ada", "--account physics --uid ada"),
        ("--account a --accounts b", "--account a --accounts b"),
        ("--noh --nod n1", "--noheader --nodelist n1"),
        ("--name --start", "--name --start"),  # a value
        ("-u --start --start now", "-u --start --starttime now"),
        ("-nu --start --noh", "-nu --start --noheader"),
        ("-nuada --noh", "-nuada --noheader"),
        ("tile --sta", "tile --sta"),  # a command's own
        ("-- --noh", "-- --noh"),
        ("--start", "--starttime"),
        ("", ""),
    ],
)
def test_beginnings_of_options(given: str, meant: str) -> None:
    """A beginning of one option's name is that name, as in Slurm's commands; values are not touched."""
    assert meant.split() == spelled_out(given.split(), OPTIONS)
