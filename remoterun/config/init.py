"""The hosts.yaml that ``remoterun init`` writes. Pure."""

from __future__ import annotations

import re
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
# As hosts.yaml takes a host's name; `any` and `local` are taken.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# Words and numbers that YAML 1.1 or 1.2 would read as something else than text.
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9._-]*", re.IGNORECASE)


def render(names: Sequence[str]) -> str:
    """The text, with one line for each of ``names`` (hosts of the SSH configuration). Names that hosts.yaml does not
    take stand in it as comments."""
    wanted = [name for name in dict.fromkeys(names) if name != "local"]
    usable = [name for name in wanted if _NAME.fullmatch(name) and name != "any"]
    lines = [f"  {_key(name)}: {{}}\n" for name in usable]
    lines += [f"  # {name!a}: not a name that can stand here\n" for name in wanted if name not in usable]
    groups = f"\ngroups:\n  all: [{', '.join(_key(name) for name in usable)}]\n" if usable else ""
    return _HEAD + "".join(lines) + groups


def _key(name: str) -> str:
    """A name as YAML reads it back: numbers and odd words in quotes."""
    return name if _PLAIN.fullmatch(name) else f'"{name}"'
