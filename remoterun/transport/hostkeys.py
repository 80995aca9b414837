"""Is this really the host? Keys are checked as OpenSSH checks them, by its own files and its own reader.

``ssh-keygen -F`` finds the entries (hashed names, wildcards, markers); what they mean is decided here.
Host certificates follow OpenSSH's PROTOCOL.certkeys.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remoterun.errors import HostKeyError
from remoterun.model.host import SshTarget

CERT = "-cert-v01@openssh.com"
PLAIN_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that speaks of the host."""

    kind: str
    blob: bytes
    marker: str | None
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class KnownHost:
    """All that the known_hosts files say of one host."""

    target: SshTarget
    keys: tuple[KnownKey, ...]

    @property
    def plain(self) -> list[KnownKey]:
        """Keys of the host itself."""
        return [key for key in self.keys if key.marker is None]

    def algorithms(self) -> tuple[str, ...]:
        """Host key algorithms to ask for: first those whose keys are known, so that a known host does not
        fail by showing another of its keys; certificates only where an authority is known."""
        kinds = {key.kind for key in self.plain}
        known = [name for name in PLAIN_TYPES if _key_kind(name) in kinds]
        rest = [name for name in PLAIN_TYPES if name not in known]
        certificates = [name + CERT for name in PLAIN_TYPES] if self.marked("@cert-authority") else []
        return (*certificates, *known, *rest)

    def marked(self, marker: str) -> list[KnownKey]:
        """Lines with a marker."""
        return [key for key in self.keys if key.marker == marker]


def look_up(target: SshTarget) -> KnownHost:
    """What is known of ``target``: under ``[host]:port`` for odd ports, then also under the plain name."""
    names = [name_in_files(target)]
    if not target.host_key_alias and target.port != 22:
        names.append(target.hostname)
    keys: list[KnownKey] = []
    for number, name in enumerate(names):
        for file in target.known_hosts_files:
            if Path(file).is_file():
                found = _find(name, file)
                # A plain entry counts for another port only when its key fits: a misfit says nothing.
                keys += found if number == 0 else [key for key in found if key.marker is not None]
                if number and not any(key.marker is None for key in keys):
                    keys += [
                        KnownKey(key.kind, key.blob, "plain-name", key.file, key.line)
                        for key in found
                        if key.marker is None
                    ]
    return KnownHost(target, tuple(keys))


def name_in_files(target: SshTarget) -> str:
    """The name under which known_hosts files have the target."""
    if target.host_key_alias:
        return target.host_key_alias
    return target.hostname if target.port == 22 else f"[{target.hostname}]:{target.port}"


def _find(name: str, file: str) -> list[KnownKey]:
    """The file's entries for a name. Plain files are read here; ``ssh-keygen`` reads whatever is not plain."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    fields = [line.split(None, 1)[0] if line.strip() else "" for line in lines]
    if any(set("@|*?!").intersection(field) for field in fields if not field.startswith("#")):
        return _find_by_ssh_keygen(name, file)
    found = []
    for number, (line, field) in enumerate(zip(lines, fields, strict=True), 1):
        words = line.split()
        if name.lower() in field.lower().split(",") and len(words) >= 3:
            try:
                found.append(KnownKey(words[1], base64.b64decode(words[2]), None, file, number))
            except ValueError:
                continue
    return found


def _find_by_ssh_keygen(name: str, file: str) -> list[KnownKey]:
    done = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", file], capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    keys, number = [], 0
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("#"):
            words = line.split("line ")[-1].split()
            number = int(words[0]) if words and words[0].isdigit() else 0
            continue
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else None
        if len(words) >= 3:
            try:
                keys.append(KnownKey(words[1], base64.b64decode(words[2]), marker, file, number))
            except ValueError:
                continue
    return keys


def fingerprint(blob: bytes) -> str:
    """As ``ssh-keygen -l`` shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def verify(known: KnownHost, algorithm: str, blob: bytes, certificate: bytes | None, *, accept_new: bool) -> None:
    """Accept the key (or the certificate) that the host proved to hold, or raise HostKeyError.

    ``algorithm`` is what was negotiated, ``blob`` the plain public key. An unknown key is added to the first
    known_hosts file when ``accept_new`` (or the SSH configuration's StrictHostKeyChecking) says so; a
    changed one is always refused.
    """
    target = known.target
    if any(key.blob == blob for key in known.marked("@revoked")):
        raise _refusal(target, f"the key of {target.hostname} ({fingerprint(blob)}) is marked as revoked")
    not_good = ""
    if certificate is not None:
        authority, problem = read_certificate(known, certificate)
        if any(key.blob == authority for key in known.marked("@revoked")):
            raise _refusal(target, f"the authority that certified the key of {target.hostname} is marked as revoked")
        if any(key.blob == authority for key in known.marked("@cert-authority")):
            if problem is None:
                return
            not_good = f"; its certificate is not good either: {problem}"
    # Without a good certificate of a known authority only the plain key says something.
    fitting = [*known.plain, *known.marked("plain-name")]
    if any(key.blob == blob for key in fitting):
        return
    if known.plain:
        old = known.plain[0]
        raise _refusal(
            target,
            f"the host key of {target.hostname} has changed: {fingerprint(blob)} is not what "
            f"{old.file}:{old.line} has. Either the host was set up anew, or somebody stands in between",
            hint=f"if you know why: ssh-keygen -R '{name_in_files(target)}' -f {old.file}, then connect with --accept-new",
        )
    if accept_new or target.strict_host_key_checking in ("no", "off", "accept-new"):
        _add(target, algorithm, blob)
        return
    raise _refusal(
        target,
        f"the host key of {target.hostname} (port {target.port}) is not known: {_key_kind(algorithm)} {fingerprint(blob)}{not_good}",
        hint="compare it with what the host's owner tells you; then accept it: the same command with --accept-new",
    )


def read_certificate(known: KnownHost, certificate: bytes) -> tuple[bytes, str | None]:
    """The public key of a host certificate's authority, and why the certificate is not to be trusted, or None.

    That the host holds the certified key was proved by the key exchange.
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        SSHCertificate,
        SSHCertificateType,
        load_ssh_public_identity,
    )

    kind = certificate[4 : 4 + int.from_bytes(certificate[:4], "big")]
    try:
        loaded = load_ssh_public_identity(kind + b" " + base64.b64encode(certificate))
    except (ValueError, UnsupportedAlgorithm) as error:
        return b"", str(error)
    if not isinstance(loaded, SSHCertificate):
        return b"", "it is no certificate"
    authority = base64.b64decode(loaded.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    try:
        loaded.verify_cert_signature()
    except InvalidSignature:
        return authority, "its signature is wrong"
    except (ValueError, UnsupportedAlgorithm) as error:
        return authority, str(error)
    if loaded.type is not SSHCertificateType.HOST:
        return authority, "it is a user's certificate"
    if not loaded.valid_after <= time.time() < loaded.valid_before:
        return authority, "it is not valid today"
    if loaded.critical_options:
        return authority, "it has critical options that are not understood"
    return authority, _principal_problem(known.target, loaded.valid_principals)


def _principal_problem(target: SshTarget, principals: Sequence[bytes]) -> str | None:
    """Whether the certificate is for this host. Unlike old OpenSSH, none at all does not mean every host."""
    name = (target.host_key_alias or target.hostname).lower()
    names = [principal.decode("utf-8", "replace") for principal in principals]
    if name in names:
        return None
    return f"it is for {', '.join(names) or 'no host'}, not for {name}"


def _refusal(target: SshTarget, message: str, hint: str = "") -> HostKeyError:
    return HostKeyError(message, hint=hint, host=target.name)


def _add(target: SshTarget, algorithm: str, blob: bytes) -> None:
    """One line at the end of the first known_hosts file; nothing in it is rewritten."""
    if not target.known_hosts_files or target.options.get("userknownhostsfile", "").lower() == "none":
        # Without a file of the user's own the key counts once; the system's file is not ours to write.
        return
    file = Path(target.known_hosts_files[0])
    name = name_in_files(target)
    if target.options.get("hashknownhosts") == "yes":
        import paramiko

        name = paramiko.HostKeys.hash_host(name)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = file.read_bytes() if file.exists() else b""
        gap = "" if not before or before.endswith(b"\n") else "\n"
        with open(file, "a", encoding="utf-8") as out:
            out.write(f"{gap}{name} {_key_kind(algorithm)} {base64.b64encode(blob).decode()}\n")
    except OSError as error:
        raise _refusal(target, f"the new key could not be written to {file}: {error.strerror}") from None


def _key_kind(algorithm: str) -> str:
    """The key type behind an algorithm's name: RSA keys sign in several ways."""
    return "ssh-rsa" if algorithm.startswith("rsa-sha2") else algorithm.removesuffix(CERT)
