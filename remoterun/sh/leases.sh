# shellcheck shell=sh disable=SC3043
# Leases: kernel locks on one folder for each GPU, in a place that all logins of a host share.

# Where this host's leases are; gone with a reboot, as the locks are.
rr_lease_folder() { printf %s "/dev/shm/remoterun-$(rr_line /proc/sys/kernel/hostname)"; }

# The same, made where it is not there yet; fails where it cannot be trusted.
rr_lease_place() {
  local dir
  dir=$(rr_lease_folder)
  if [ ! -d "$dir" ]; then mkdir -m 1777 "$dir" 2>/dev/null && chmod 1777 "$dir"; fi
  [ -d "$dir" ] && [ ! -L "$dir" ] && [ -w "$dir" ] && printf %s "$dir"
}

# PLACE UUID: the folder that is locked for this GPU.
# A folder, not a file: any login may lock it, also where the kernel guards files in sticky folders.
rr_lease_mark() {
  mkdir -m 755 "$1/$2" 2>/dev/null
  [ -d "$1/$2" ] && [ ! -L "$1/$2" ]
}

# JOB UUIDS: beside each lock that this process holds, a note of whose it is, readable by all. Written only by who has
# the lock: a launch that came too late must not take over the holder's name.
rr_lease_notes() {
  local dir uuid
  dir=$(rr_lease_place) || return 0
  for uuid in $(printf %s "$2" | tr , ' '); do
    printf 'job=%s\nuser=%s\nsince=%s\npid=%s\nticks=%s\nlock=%s\n' "$1" "$(id -un)" "$(rr_now)" "$$" "$(rr_ticks $$)" \
      "$(rr_lock_key "$dir/$uuid")" | rr_put "$dir/$uuid.$(id -u)"
    chmod 644 "$dir/$uuid.$(id -u)"
  done
}

# The name that /proc/locks has for a file: device and inode.
rr_lock_key() {
  local device inode
  # shellcheck disable=SC2046
  set -- $(stat -c '%d %i' "$1")
  device=$1 inode=$2
  printf '%02x:%02x:%s' $(((device >> 8) & 4095)) $(((device & 255) | ((device >> 12) & 1048320))) "$inode"
}

# The leases that are held now: lines of lease=UUID JOB USER SINCE ("-" for what cannot be told). Whose note is alive
# beside a lock that the kernel lists is believed at once; the other locks are tried.
rr_leases() {
  local dir lock note told locks best
  dir=$(rr_lease_folder)
  [ -d "$dir" ] && command -v flock >/dev/null 2>&1 || return 0
  locks=$(rr_locks)
  for lock in "$dir"/*; do
    if [ ! -d "$lock" ] || [ -L "$lock" ]; then continue; fi
    told='' best=''
    for note in "$lock".*; do
      if [ ! -r "$note" ] || [ -d "$note" ] || [ -L "$note" ]; then continue; fi
      if rr_alive "$(rr_get "$note" pid)" "$(rr_get "$note" ticks)"; then
        case $locks in *" $(rr_get "$note" lock) "*) told=1 best=$note && break ;; esac
        best=$note
      elif [ -z "$best" ]; then
        best=$note
      fi
    done
    if [ -z "$told" ]; then
      if flock -n -s "$lock" true; then continue; fi
    fi
    told='- - -'
    if [ -n "$best" ]; then told="$(rr_get "$best" job) $(rr_get "$best" user) $(rr_get "$best" since)"; fi
    printf 'lease=%s %s\n' "${lock##*/}" "$told"
  done
}

# The files that the kernel holds whole-file locks on, between blanks; nothing where it does not say.
rr_locks() {
  local _ kind rest all=' '
  [ -r /proc/locks ] || return 0
  while read -r _ kind rest; do
    # NUMBER: FLOCK ADVISORY WRITE PID DEVICE:INODE 0 EOF; who only waits has "->" in between.
    [ "$kind" = FLOCK ] || continue
    # shellcheck disable=SC2086
    set -- $rest
    all="$all$4 "
  done </proc/locks
  printf %s "$all"
}
