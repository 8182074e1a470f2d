"""Templates of the static pages: whatever is put into them is escaped; a site may have its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined, TemplateError
from markupsafe import Markup

from slurm_ofu.errors import ConfigError
from slurm_ofu.reports.html_charts import Chart
from slurm_ofu.reports.html_table import MOST_ROWS, Cell, HtmlColumn, HtmlTable, paged_rows, static_rows

#: Nothing from elsewhere, nothing inline: what a job is called can neither run nor look like anything.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table as templates have it. ``data``: the whole of it as JSON where ``rows`` are only the first."""

    key: str
    caption: str
    columns: tuple[HtmlColumn, ...]
    rows: list[list[tuple[Cell, float | None]]]
    row_count: int
    sorted_column: int
    data: Markup | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChart:
    """A chart with its table."""

    chart: Chart
    table: ShownTable


class Press:
    """Makes pages out of templates. ``everywhere``: what every template may use."""

    def __init__(
        self, templates: Mapping[str, str], assets: Mapping[str, bytes], everywhere: Mapping[str, Any]
    ) -> None:
        self._environment = Environment(
            loader=DictLoader(dict(templates)),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        # Browsers keep what they have under an address: new contents have a new one.
        addresses = {name: f"assets/{name}?{sha256(text).hexdigest()[:12]}" for name, text in assets.items()}
        self._environment.globals.update(everywhere, assets=addresses, policy=POLICY)

    def page(self, template: str, *, path: str, **facts: Any) -> str:
        """One page. Raises ConfigError for a template that cannot be used."""
        root = "../" * path.count("/")
        shown = {name: _shown(value) for name, value in facts.items()}
        try:
            return self._environment.get_template(template).render(path=path, root=root, **shown)
        except TemplateError as error:
            where = " ".join(str(part) for part in _place(error))
            raise ConfigError(
                f"template {where or template}: {error.message or type(error).__name__}: mend it, or take it"
                " out of [pages] templates_dir"
            ) from error


def _place(error: TemplateError) -> Iterator[str]:
    """Which template, and which line of it, where the error says."""
    if name := getattr(error, "name", None):
        yield str(name)
    if line := getattr(error, "lineno", None):
        yield f"line {line}"


def _shown(value: Any) -> Any:
    if isinstance(value, HtmlTable):
        return shown_table(value)
    if isinstance(value, Chart):
        return ShownChart(chart=value, table=shown_table(value.table))
    return [_shown(item) for item in value] if isinstance(value, list) else value


def shown_table(table: HtmlTable) -> ShownTable:
    """The table with everything, or where it is large with its first rows and the whole as JSON."""
    data = None
    if table.row_count > MOST_ROWS:
        first, text = paged_rows(table)
        rows: list[list[tuple[Cell, float | None]]] = [[(cell, None) for cell in row] for row in first]
        data = Markup(text)  # script_safe made it
    else:
        rows = static_rows(table)
    titles = [column.title for column in table.columns]
    return ShownTable(
        key=table.key,
        caption=table.caption,
        columns=table.columns,
        rows=rows,
        row_count=table.row_count,
        sorted_column=titles.index(table.sorted_by),
        data=data,
    )
