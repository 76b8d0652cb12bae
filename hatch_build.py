"""Build hook: the wheel carries the large data files compiled, so that the first start parses no YAML either."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WHERE = "stethoscope/_bundled/playbooks/compiled"


class CompileHook(BuildHookInterface[Any]):
    """Compiles signatures and tables of codes as the program itself does, into a cache directory of the build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled files to a wheel; a checkout that is installed as it stands compiles at its first start."""
        if version == "editable":
            return
        self._cache = tempfile.TemporaryDirectory(prefix="stethoscope-build-")
        # Neither the files nor the cache of whoever builds belong into the wheel.
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_CACHE_HOME"] = self._cache.name
        sys.path.insert(0, self.root)
        from stethoscope.specs.codes import load_codes
        from stethoscope.specs.compiled import DIRECTORY
        from stethoscope.specs.incident_kinds import load_kinds
        from stethoscope.specs.metric import load_catalogue
        from stethoscope.specs.root_cause import load_root_causes
        from stethoscope.specs.rule_book import load_rules
        from stethoscope.specs.signature import load_signatures

        load_kinds()
        load_signatures()
        load_rules(load_catalogue(), load_root_causes())
        codes = load_codes()
        codes.all("xid")
        codes.all("sxid")
        for path in sorted(Path(self._cache.name, "stethoscope", DIRECTORY).glob("*.json")):
            path.chmod(0o644)
            build_data["force_include"][str(path)] = f"{WHERE}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the cache directory."""
        if version != "editable":
            self._cache.cleanup()
