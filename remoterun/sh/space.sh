# shellcheck shell=sh disable=SC3043
# What remoterun's own folder on a host takes, and taking it away.

# rr_space WORKDIR: a line `KIB SECONDS PATH` for each job and each snapshot (SECONDS since 1970: when the job ended, when the
# snapshot was last used), then what is free there. All names are of our own making. What two of them share counts
# once, for the first.
rr_space() {
  local size path LC_ALL=C
  cd "$(rr_home "$1")" 2>/dev/null || return 0
  # Snapshots first: jobs may share files with them.
  find trees jobs -mindepth 1 -maxdepth 2 \( -path 'trees/*/*' -o -path 'jobs/*' ! -path 'jobs/*/*' \) -print 2>/dev/null |
    sed 's/^trees/0 &/; s/^jobs/1 &/' | sort | cut -d ' ' -f 2- | tr '\n' '\0' | du -sk --files0-from=- 2>/dev/null |
    while read -r size path; do
      case $path in
        jobs/*) printf '%s %s %s\n' "$size" "$(stat -c %Y "$path/exit" 2>/dev/null || stat -c %Y "$path")" "$path" ;;
        *) printf '%s %s %s\n' "$size" "$(stat -c %Y "$path")" "$path" ;;
      esac
    done
  df -Pk . | sed -n '2s/^.*  *[0-9][0-9]*  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% .*$/free=\1/p'
}

# rr_remove_tree WORKDIR KEY TREE: a snapshot that no job needs; renamed first, so that it is gone at once or not at all.
rr_remove_tree() {
  cd "$(rr_home "$1")/trees/$2" 2>/dev/null || return 0
  [ ! -d "$3" ] || { mv -T "$3" ".aside.$3.$$" && rm -rf ".aside.$3.$$"; }
}

# rr_remove_leftovers WORKDIR: what killed launches left half made: their shell's pid ends the name.
rr_remove_leftovers() {
  local old
  cd "$(rr_home "$1")" 2>/dev/null || return 0
  for old in jobs/.aside.* trees/*/.aside.*; do
    if [ -d "$old" ] && [ ! -e "/proc/${old##*.}" ]; then rm -rf "$old"; fi
  done
}
