"""A site's own templates: what is wrong with one is said, with its file and line."""

import pytest

from slurm_ofu.errors import ConfigError
from slurm_ofu.reports.mail_templates import MailTemplates, TemplateText

FILE = "/etc/slurm-ofu/mail/a.txt.jinja"


def filled(text: str, **context: object) -> str:
    """One template."""
    return MailTemplates({"a.txt.jinja": TemplateText(file=FILE, text=text)}).filled("a.txt.jinja", context)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("one\n{% if %}\n", 2, "not a template"),
        ("one\ntwo\n{{ usr }}\n", 3, "'usr' is undefined"),
        ("{{ total.ofu }}\n", 1, "has no attribute 'ofu'"),
        ("\n{% for x in 7 %}{% endfor %}", 2, "not iterable"),
        ("\n\n{{ 1 // 0 }}", 3, "zero"),
        ("{% include 'b.txt.jinja' %}", 1, "b.txt.jinja"),
        ("\n{{ ''.__class__.__mro__ }}", 2, "unsafe"),
        ("\n{% set x = [] %}{{ x.append(1) }}", 2, "is unsafe"),
    ],
    ids=range(8),
)
def test_a_mistake_is_said_with_its_place(text: str, line: int, words: str) -> None:
    """File and line, and what is wrong there."""
    with pytest.raises(ConfigError) as caught:
        filled(text, total={"gpu_hours": 1})
    assert str(caught.value).startswith(f"{FILE}:{line}: ")
    assert words in str(caught.value)


def test_a_mistake_in_what_is_included_is_said_there() -> None:
    """The innermost file is the one to mend."""
    texts = {
        "a.txt.jinja": TemplateText(file="/a", text="\n{% include 'b.txt.jinja' %}"),
        "b.txt.jinja": TemplateText(file="/b", text="\n\n{{ nothing }}"),
    }
    with pytest.raises(ConfigError, match=r"^/b:3: cannot be filled in"):
        MailTemplates(texts).filled("a.txt.jinja", {})


def test_one_that_includes_itself_ends() -> None:
    """Without an end it is a mistake as any other."""
    with pytest.raises(ConfigError, match=r"a\.txt\.jinja:1: cannot be filled in"):
        filled("{% include 'a.txt.jinja' %}")


def test_html_escapes_and_text_does_not() -> None:
    """By the name of the template."""
    texts = {name: TemplateText(file=name, text="{{ x }}") for name in ("a.txt.jinja", "a.html.jinja")}
    templates = MailTemplates(texts)
    assert "<&" == templates.filled("a.txt.jinja", {"x": "<&"})
    assert "&lt;&amp;" == templates.filled("a.html.jinja", {"x": "<&"})
