"""Reading a host's facts: the answer of sh/facts.sh as a value. Pure but for :func:`post_facts`."""

from __future__ import annotations

from remoterun.errors import HostError
from remoterun.host.conversation import Conversation, Reply
from remoterun.model.facts import Facts, PythonFacts
from remoterun.model.host import Host


def post_facts(conversation: Conversation, host: Host, *, project_key: str = "", python: str | None) -> int:
    """Ask for the facts; ``parse_facts`` takes the reply. The login's start-up files are asked only over SSH:
    a local host has this process's own environment already."""
    return conversation.post(
        "rr_facts",
        [
            host.workdir,
            ":".join(host.path),
            host.tmux or "",
            python or host.python or "",
            project_key,
            "1" if host.transport == "ssh" else "0",
        ],
        libraries=["lib", "facts"],
    )


def parse_facts(reply: Reply, host: Host, python: str | None) -> Facts:
    """The facts in ``reply``. Raises HostError when the script could not run to its end."""
    values: dict[str, str] = {}
    tools: dict[str, str] = {}
    trees: list[str] = []
    for line in reply.text.splitlines():
        key, found, value = line.partition("=")
        value = value.replace("\\n", "\n")
        if not found:
            continue
        if key.startswith("tool."):
            tools[key[5:]] = value
        elif key == "tree":
            trees.append(value)
        else:
            values.setdefault(key, value)
    for needed in ("home", "workdir", "path", "host_id"):
        if not values.get(needed):
            raise HostError(
                f"{host.name} did not say its {needed}: {reply.error_text or 'no reason given'}",
                hint="remoterun doctor",
                host=host.name,
            )
    return Facts(
        home=values["home"],
        workdir=values["workdir"],
        user=values.get("user", ""),
        hostname=values.get("hostname", ""),
        host_id=values["host_id"],
        boot=values.get("boot", ""),
        path=values["path"],
        kernel=values.get("kernel"),
        arch=values.get("arch"),
        cpus=_number(values.get("cpus")),
        memory_total_kib=_number(values.get("memory_total")),
        memory_available_kib=_number(values.get("memory_available")),
        load=_load(values.get("load")),
        disk_available_kib=_number(values.get("disk_available")),
        disk_total_kib=_number(values.get("disk_total")),
        login_shell=values.get("login_shell"),
        kills_at_logout=values.get("kills_at_logout", "").lower() in ("yes", "true", "1", "on"),
        tools=tools,
        python=_python(values),
        python_asked=python or host.python,
        trees=tuple(trees),
    )


def _python(values: dict[str, str]) -> PythonFacts | None:
    if "python" not in values:
        return None
    return PythonFacts(values["python"], values.get("python_version"), values.get("python_torch"))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _load(text: str | None) -> float | None:
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return None
