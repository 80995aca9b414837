# shellcheck shell=sh disable=SC3043
# Leases: kernel locks on one folder for each GPU, in a place that all logins of a host share.

# Where this host's leases are; gone with a reboot, as the locks are.
rr_lease_place() {
  local dir
  dir=/dev/shm/remoterun-$(uname -n)
  if [ ! -d "$dir" ]; then mkdir -m 1777 "$dir" 2>/dev/null && chmod 1777 "$dir"; fi
  [ -d "$dir" ] && [ ! -L "$dir" ] && [ -w "$dir" ] && printf %s "$dir"
}

# PLACE UUID: the folder that is locked for this GPU, and beside it a note of ours of who means to lock it.
# A folder, not a file: any login may lock it, also where the kernel guards files in sticky folders.
rr_lease_mark() {
  mkdir -m 755 "$1/$2" 2>/dev/null
  [ -d "$1/$2" ] && [ ! -L "$1/$2" ] || return 1
  printf 'job=%s\nuser=%s\nsince=%s\npid=%s\nticks=%s\n' "${PWD##*/}" "$(id -un)" "$(rr_now)" "$$" "$(rr_ticks $$)" |
    rr_put "$1/$2.$(id -u)"
}

# The leases that are held now: lines of lease=UUID JOB USER SINCE ("-" for what cannot be told).
rr_leases() {
  local dir lock note told
  dir=/dev/shm/remoterun-$(uname -n)
  [ -d "$dir" ] && command -v flock >/dev/null 2>&1 || return 0
  for lock in "$dir"/*; do
    if [ ! -d "$lock" ] || [ -L "$lock" ] || flock -n -s "$lock" true; then continue; fi
    told='- - -'
    for note in "$lock".*; do
      if [ -f "$note" ] && rr_alive "$(rr_get "$note" pid)" "$(rr_get "$note" ticks)"; then
        told="$(rr_get "$note" job) $(rr_get "$note" user) $(rr_get "$note" since)"
      fi
    done
    printf 'lease=%s %s\n' "${lock##*/}" "$told"
  done
}
