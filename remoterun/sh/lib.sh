# shellcheck shell=sh disable=SC3043
# What every script on a host shares: the clock, the identity of host and process, small record files.
# Functions only. `local` is in dash, bash and busybox alike.

# The time in UTC, as ISO 8601.
rr_now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# The first line of a file, or nothing. No process is started.
rr_line() {
  local text=
  if [ -r "$1" ]; then { IFS= read -r text || :; } 2>/dev/null <"$1"; fi
  printf %s "$text"
}

# Seconds since boot: no clock that is set can move it.
rr_uptime() {
  local up rest
  # shellcheck disable=SC2034
  IFS='. ' read -r up rest </proc/uptime
  printf %s "$up"
}

# Hundredths of a second since boot.
rr_centiseconds() {
  local up rest
  read -r up rest </proc/uptime
  rest=${up#*.}
  printf %s "${up%.*}${rest%"${rest#??}"}"
}

# How many processes the kernel has ended for want of memory since boot; nothing where it does not count them.
rr_oom_kills() {
  local key value
  while IFS=' ' read -r key value; do
    if [ "$key" = oom_kill ]; then
      printf %s "$value"
      return
    fi
  done </proc/vmstat
}

# This boot of this machine.
rr_boot() { rr_line /proc/sys/kernel/random/boot_id; }

# Which machine this is, among those that share a home folder: machine id and node name.
rr_host() { printf '%s/%s' "$(rr_line /etc/machine-id)" "$(uname -n)"; }

# Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); fails if it is gone or a
# zombie. With the pid it names one process for the whole life of a boot.
rr_ticks() {
  local stat
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The command's name stands in parentheses and may hold anything; the last one ends it.
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "$1" != X ] || return 1
  shift 19
  printf %s "$1"
}

# The process group of a process.
rr_group() {
  local stat
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  printf %s "$3"
}

# Is the process PID that started at TICKS still alive?
rr_alive() { [ -n "$1" ] && [ -n "$2" ] && [ "$(rr_ticks "$1")" = "$2" ]; }

# One value of a record file (lines of key=value).
rr_get() {
  local key value
  [ -r "$1" ] || return 1
  while IFS='=' read -r key value; do
    if [ "$key" = "$2" ]; then
      printf %s "$value"
      return 0
    fi
  done <"$1"
  return 1
}

# Write stdin to a file that appears whole or not at all.
rr_put() { cat >"$1.tmp.$$" && mv -f "$1.tmp.$$" "$1"; }

# Exactly SIZE bytes of stdin. GNU head takes no more than it gives; busybox's reads ahead, its dd does not.
rr_take() {
  if head --version 2>/dev/null | grep -q GNU; then
    head -c "$1"
  else
    dd bs=4096 count=$(($1 / 4096)) iflag=fullblock 2>/dev/null
    dd bs=1 count=$(($1 % 4096)) 2>/dev/null
  fi
}

# Sleep for a fraction of a second where the host's sleep can.
rr_nap() { sleep "$1" 2>/dev/null || sleep 1; }

# One line into the job's events: state, reason.
rr_event() {
  printf '{"time":"%s","state":"%s","reason":"%s"}\n' "$(rr_now)" "$2" "$3" >>"$1/events"
}

# The pids of a job's live processes but for its supervisor: those that carry the job's id in their
# environment, and all their descendants (which may have cleaned theirs). Zombies do not count.
rr_pids() {
  local id="$1" file pid more all=' ' stat
  # shellcheck disable=SC2013
  for file in $(grep -lsF "REMOTERUN_JOB=$id" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    pid=${pid%/environ}
    # The whole variable, not one that begins like it. The script that looks has itself no such variable.
    tr '\0' '\n' 2>/dev/null <"$file" | grep -qxF "REMOTERUN_JOB=$id" && all="$all$pid "
  done
  [ "$all" != ' ' ] || return 0
  more=1
  while [ -n "$more" ]; do
    more=
    for file in /proc/[0-9]*/stat; do
      { IFS= read -r stat <"$file"; } 2>/dev/null || continue
      pid=${stat%% *}
      case $all in *" $pid "*) continue ;; esac
      # shellcheck disable=SC2086
      set -- ${stat##*) }
      case $all in
        *" $2 "*)
          all="$all$pid "
          more=1
          ;;
      esac
    done
  done
  for pid in $all; do
    if rr_ticks "$pid" >/dev/null; then echo "$pid"; fi
  done
}

# ~ and ~/x become the login's home.
rr_home() {
  case $1 in
    '~') printf %s "$HOME" ;;
    '~'/*) printf '%s/%s' "$HOME" "${1#??}" ;;
    *) printf %s "$1" ;;
  esac
}

# A command in a session of its own, with no wait. `setsid -f` keeps signals as they are; a shell's `&` would
# make SIGINT ignored for ever, which is only better than nothing.
rr_detached() {
  if setsid -f true 2>/dev/null; then setsid -f "$@"; else setsid "$@" & fi
}
