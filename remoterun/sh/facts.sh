# shellcheck shell=sh disable=SC3043
# What a launch, `hosts` and `doctor` must know of a host, in one look. Prints key=value lines.

# rr_facts WORKDIR PATHS TMUX PYTHON KEY LOGIN: WORKDIR and PYTHON may begin with ~/; PATHS go in front of PATH; TMUX
# and PYTHON may be empty (found by PATH); KEY is a project whose trees are listed, or empty; LOGIN is 1 where the
# login's start-up files are asked for their PATH.
rr_facts() {
  local LC_ALL=C work name found
  work=$(rr_home "$1")
  # Start-up files and interpreters are slow: side by side with the rest. Each line says what it is.
  rr_tools "$2" "$3" "$4" "$6" &
  rr_say home "$HOME"
  rr_say workdir "$work"
  rr_say user "$(id -un 2>/dev/null || id -u)"
  rr_say hostname "$(uname -n)"
  rr_say kernel "$(uname -r)"
  rr_say arch "$(uname -m)"
  rr_say host_id "$(rr_host)"
  rr_say boot "$(rr_boot)"
  rr_say cpus "$(nproc 2>/dev/null)"
  rr_say load "$(rr_line /proc/loadavg)"
  sed -n 's/^MemTotal: *\([0-9]*\) kB/memory_total=\1/p; s/^MemAvailable: *\([0-9]*\) kB/memory_available=\1/p' /proc/meminfo
  # systemd may be told to end every process of a login when it logs out; the later file wins.
  found=$(sed -n 's/^[[:space:]]*KillUserProcesses[[:space:]]*=[[:space:]]*//p' /usr/lib/systemd/logind.conf.d/*.conf \
    /etc/systemd/logind.conf /run/systemd/logind.conf.d/*.conf /etc/systemd/logind.conf.d/*.conf 2>/dev/null | tail -n 1)
  rr_say kills_at_logout "$found"
  # The workdir may not be there yet: ask its nearest ancestor that is.
  found=$work
  while [ ! -d "$found" ] && [ "$found" != / ]; do found=$(dirname "$found"); done
  df -Pk "$found" | sed -n '2s/^.*  *\([0-9][0-9]*\)  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% .*$/disk_total=\1\ndisk_available=\2/p'
  wait
  if [ -n "$5" ] && [ -d "$work/trees/$5" ]; then
    # shellcheck disable=SC2012
    for name in $(ls -t "$work/trees/$5" | head -n 8); do rr_say tree "$name"; done
  fi
}

# PATHS TMUX PYTHON LOGIN: the PATH, and what it finds.
rr_tools() {
  local shell='' login='' name found
  if [ "$4" = 1 ]; then
    shell=${SHELL:-sh}
    if login=$(rr_login_path "$shell"); then rr_say login_shell "$shell"; fi
  fi
  rr_path "$1" "$login"
  rr_say path "$PATH"
  for name in tar gzip docker podman rsync sshfs rclone flock setsid script py-spy nvidia-smi; do
    found=$(command -v "$name" 2>/dev/null) && rr_say "tool.$name" "$found"
  done
  if found=$(command -v "${2:-tmux}" 2>/dev/null); then rr_say tool.tmux "$found $("$found" -V 2>/dev/null)"; fi
  rr_python "$3"
}

# KEY=VALUE on one line; a newline in a value (a folder's name may have one) is written as \n.
rr_say() {
  case $2 in
    *'
'*) printf '%s=%s\n' "$1" "$(printf %s "$2" | sed ':a;N;$!ba;s/\n/\\n/g')" ;;
    *) printf '%s=%s\n' "$1" "$2" ;;
  esac
}

# The PATH that the login's start-up files make; fails when they take longer than 5 s.
rr_login_path() {
  local out flags=-lc
  case $1 in *csh) flags=-c ;; esac
  # shellcheck disable=SC2016
  out=$(timeout -k 1 5 "$1" "$flags" "exec sh -c 'echo; echo RR-PATH=\"\$PATH\"'" </dev/null 2>/dev/null) || return 1
  out=${out##*RR-PATH=}
  printf %s "${out%%
*}"
}

# The PATH of what we run: FRONT, the login's own, what SSH gives, and where tools often are. Extended, never
# replaced: a fixed one would break hosts whose tools live elsewhere.
rr_path() {
  local IFS=: dir all="$1"
  for dir in $2 $PATH $HOME/.local/bin $HOME/bin /usr/local/bin /usr/bin /bin /snap/bin /usr/local/cuda/bin /usr/lib/wsl/lib /opt/bin; do
    case :$all: in *":$dir:"*) ;; *) all=${all:+$all:}$dir ;; esac
  done
  PATH=$all
  export PATH
}

# The interpreter, its version, and whether torch is there (its version, without importing it).
rr_python() {
  local asked found name
  asked=$(rr_home "$1")
  if [ -n "$asked" ]; then set -- "$asked"; else set -- python3 python; fi
  for name in "$@"; do
    found=$(command -v "$name" 2>/dev/null) || continue
    rr_say python "$found"
    # importlib.metadata would cost more than all the rest; importing torch, seconds.
    timeout -k 1 20 "$found" -c '
import os, re, sys
said = "python_version=%d.%d.%d" % sys.version_info[:3]
try:
    from importlib.util import find_spec
    with open(os.path.join(os.path.dirname(find_spec("torch").origin), "version.py")) as file:
        said += "\npython_torch=" + re.search("__version__ = .([^ \"]*).\n", file.read()).group(1)
except Exception:
    pass
print(said)' </dev/null 2>/dev/null
    return
  done
}

# rr_manifest WORKDIR KEY TREE: a snapshot's own list, for a laptop that did not make it.
rr_manifest() { cat "$(rr_home "$1")/trees/$2/$3/manifest"; }
