"""The user's `config.yaml`: defaults for the flags of every verb, by the flags' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, did_you_mean
from stethoscope.paths import config_dir, is_there
from stethoscope.specs.load import Loaded, load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FILE = "config.yaml"
SCHEMA = "stethoscope.config/1"
LEMONS = "lemons"
SECTIONS = (LEMONS, "incidents")
"""Keys that every verb leaves alone: `lemons` is read by specs/lemons, `incidents` is the flag of a few verbs."""


def config_path() -> Path:
    """Return where the user's settings are."""
    return config_dir() / FILE


def load_config(path: Path | None = None) -> Loaded | None:
    """Return the settings, None when there is no such file; raises DataError for one that is no mapping of names."""
    path = path or config_path()
    if not is_there(path):
        return None
    loaded = load(path)
    if loaded.data is None:
        return None
    if not isinstance(loaded.data, dict):
        raise DataError("settings are `name: value` lines", where=str(path))
    schema = loaded.data.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise loaded.error(f'"{schema}" is not {SCHEMA}', "schema")
    return loaded


def settings_of(loaded: Loaded, verb: str, flags: Collection[str], verbs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for the flags of one verb: those under its own name before those of all verbs.

    `flags` are the names without dashes in front. A name that is no flag of this verb is left to the others; one under
    the verb's own name that it does not have is an error.
    """
    found = {key: value for key, value in loaded.data.items() if key in flags and not isinstance(value, dict)}
    own = loaded.data.get(verb)
    if isinstance(own, dict):
        for key in own:
            if key not in flags:
                raise loaded.error(f'"{key}" is no flag of {verb}{did_you_mean(key, flags)}', verb, key)
        found.update(own)
    elif own is not None and verb in verbs and verb not in flags:
        raise loaded.error(f"what is below {verb} are its flags, as `name: value` lines", verb)
    return found


def unknown_names(loaded: Loaded, flags: Mapping[str, Collection[str]]) -> list[DataError]:
    """Return an error for every name that no verb has as a flag; `flags` has those of every verb."""
    every = {flag for some in flags.values() for flag in some}
    errors = []
    for key, value in loaded.data.items():
        if key == "schema" or key in SECTIONS:
            continue
        # A verb may have the name of another's flag: what is below it are its own.
        if key in flags and isinstance(value, dict):
            errors += [
                loaded.error(f'"{name}" is no flag of {key}{did_you_mean(name, flags[key])}', key, name)
                for name in value
                if name not in flags[key]
            ]
        elif key not in every:
            errors.append(
                loaded.error(f'no verb has a flag "{key}"{did_you_mean(key, [*every, *flags, *SECTIONS])}', key)
            )
    return errors
