"""Jinja2 templates of e-mails: filled in, or a clear word on which line of which file is wrong."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError, select_autoescape
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slurm_ofu.errors import ConfigError

# What a mistake in a template comes to, beside Jinja's own errors.
_MISTAKES: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateText:
    """One template, and the file it is from."""

    file: str
    text: str


class MailTemplates:
    """Templates by name. Those that end in ``.html.jinja`` escape; an unknown name is an error."""

    def __init__(self, texts: Mapping[str, TemplateText]) -> None:
        self._files = {its.file for its in texts.values()}
        self._texts = texts
        self._environment = ImmutableSandboxedEnvironment(
            loader=FunctionLoader(self._load),
            autoescape=select_autoescape(enabled_extensions=("html.jinja",), default_for_string=False),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )

    def filled(self, name: str, context: Mapping[str, Any]) -> str:
        """The template with what it shows. Raises ConfigError."""
        try:
            return self._environment.get_template(name).render(context)
        except TemplateSyntaxError as error:
            place = f"{error.filename or name}:{error.lineno}"
            raise ConfigError(f"{place}: not a template: {error.message}") from error
        except (TemplateError, *_MISTAKES) as error:
            what = str(error) or type(error).__name__
            raise ConfigError(f"{self._place(error, name)}: cannot be filled in: {what}") from error

    def _load(self, name: str) -> tuple[str, str, Callable[[], bool]] | None:
        its = self._texts.get(name)
        return None if its is None else (its.text, its.file, lambda: True)

    def _place(self, error: BaseException, name: str) -> str:
        """The innermost line of a template that led to the error."""
        frames = traceback.extract_tb(error.__traceback__, None)
        lines = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename in self._files]
        file = self._texts[name].file if name in self._texts else name
        return lines[-1] if lines else file
