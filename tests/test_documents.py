"""The documents say what the program does."""

import re
from pathlib import Path

import pytest

from slurm_ofu.cli.describe import describe
from slurm_ofu.config.keys import FREE_SECTIONS, SECTIONS
from slurm_ofu.values import Reason

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])


def test_the_command_reference_is_up_to_date() -> None:
    """docs/cli.md is what the commands say of themselves; `make docs` writes it anew."""
    assert (ROOT / "docs/cli.md").read_text() == describe()


def test_every_key_of_the_configuration_is_documented() -> None:
    """Each key stands in docs/operate.md under its section."""
    text = (ROOT / "docs/operate.md").read_text()
    keys = [f"[{section}] {key}" for section, keys in SECTIONS.items() for key in keys]
    assert [] == [key for key in keys if f"`{key}`" not in text]
    assert [] == [section for section in FREE_SECTIONS if f"[{section}." not in text]


def test_every_reason_is_explained() -> None:
    """Each reason that a figure can have stands in docs/metric.md."""
    text = (ROOT / "docs/metric.md").read_text()
    assert [] == [reason for reason in Reason.__args__ if f"| `{reason}` |" not in text]  # type: ignore[attr-defined]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link in a document names a file of the repository."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [] == [link for link in links if not (document.parent / link).exists()]
