"""The hosts.yaml that ``remoterun init`` writes."""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = """\
# The hosts that remoterun knows. Every key is optional: a name that your SSH configuration knows can be used
# without standing here. `remoterun config` shows what is in force, docs/hosts-yaml.md says what each key means.

defaults:
  # host: gpu1                 # where `launch` goes without -H; else this machine
  # python: ~/venv/bin/python  # the interpreter of jobs on the hosts; else python3 of the login's PATH
  # env: {HF_HOME: /data/hf}

hosts:
  local: {transport: local, runtime: none}
"""


def render(names: Sequence[str]) -> str:
    """The text, with one line for each of ``names`` (hosts of the SSH configuration)."""
    lines = [f"  {_key(name)}: {{}}\n" for name in names if name != "local"]
    groups = ""
    if lines:
        members = ", ".join(_key(name) for name in names if name != "local")
        groups = f"\ngroups:\n  all: [{members}]\n"
    return _HEAD + "".join(lines) + groups


def _key(name: str) -> str:
    """A name as YAML reads it back: numbers and odd words in quotes."""
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if (
        plain.isalnum()
        and not plain.isdigit()
        and name.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    ):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
