# shellcheck shell=sh disable=SC3043
# The Python stacks of a job's processes, by py-spy where it is there; else what the kernel says of them.

# ID: one part for each Python process, behind a line `process=PID RANK NAME`.
rr_stacks() {
  local pid name rank spy found=
  for pid in $(rr_pids "$1"); do
    name=$(readlink "/proc/$pid/exe" 2>/dev/null)
    case ${name##*/} in python* | pypy*) ;; *) continue ;; esac
    found=1
    rank=$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^RANK=//p')
    printf 'process=%s %s %s\n' "$pid" "${rank:--}" "$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-200)"
    if spy=$(rr_py_spy "$pid"); then
      timeout -k 2 20 "$spy" dump --pid "$pid" 2>&1 </dev/null && continue
    else
      echo 'py-spy is not on this host: pip install py-spy into the Python of the job'
    fi
    rr_kernel_view "$pid"
  done
  [ -n "$found" ] || return 4
}

# py-spy by PATH, or beside the interpreter that the process was started with.
rr_py_spy() {
  local first
  command -v py-spy && return
  first=$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n 1p)
  case $first in
    /*) [ -x "${first%/*}/py-spy" ] && printf '%s/py-spy' "${first%/*}" ;;
    *) return 1 ;;
  esac
}

# State, processor time in clock ticks, threads and what the kernel waits for.
rr_kernel_view() {
  local stat
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  # shellcheck disable=SC2086
  set -- "$1" ${stat##*) }
  printf 'state %s, %s clock ticks of processor time, %s threads, waits in %s\n' \
    "$2" "$((${13} + ${14}))" "${19}" "$(rr_line "/proc/$1/wchan")"
}
