"""Columns of tables whose types every SQLite enforces, as text of a CREATE TABLE. Standard library only."""


def text(name: str, *, null: bool = True) -> str:
    return f"{name} TEXT{'' if null else ' NOT NULL'} CHECK (typeof({name}) IN ('text', 'null'))"


def count(name: str, *, null: bool = True) -> str:
    """A whole number, 0 or more."""
    return (
        f"{name} INTEGER{'' if null else ' NOT NULL'}"
        f" CHECK (typeof({name}) IN ('integer', 'null') AND ({name} IS NULL OR {name} >= 0))"
    )


def flag(name: str) -> str:
    return f"{name} INTEGER NOT NULL CHECK (typeof({name}) = 'integer' AND {name} IN (0, 1))"


def amount(name: str, *, null: bool = True) -> str:
    """A finite number, 0 or more."""
    return (
        f"{name} REAL{'' if null else ' NOT NULL'}"
        f" CHECK (typeof({name}) IN ('real', 'null') AND ({name} IS NULL OR {name} BETWEEN 0 AND 9e307))"
    )


def signed(name: str) -> str:
    """A finite number of either sign."""
    return (
        f"{name} REAL CHECK (typeof({name}) IN ('real', 'null')"
        f" AND ({name} IS NULL OR {name} BETWEEN -9e307 AND 9e307))"
    )


def one_of(name: str, words: str, *, null: bool = True) -> str:
    return f"{name} TEXT{'' if null else ' NOT NULL'} CHECK ({name} IS NULL OR {name} IN ({words}))"
