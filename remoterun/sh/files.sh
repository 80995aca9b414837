# shellcheck shell=sh disable=SC3043
# Files of a job, on their way to the laptop. Names may hold anything, so everything is ended by NUL.

# rr_list WORKDIR ID [tree KEY TREE] PATH…: everything at and under these paths of the job's folder: kind, size, time of
# change (seconds.fraction), name, link target; five fields each. With `tree` the pristine snapshot comes first, its
# names beginning with `tree/`. Paths that are not there are passed over.
rr_list() {
  local work
  work=$(rr_home "$1")
  [ -f "$work/jobs/$2/job.json" ] || return 3
  cd "$work/jobs/$2" || return 3
  shift 2
  if [ "$1" = tree ]; then
    if [ -d "$work/trees/$2/$3/files" ]; then
      (cd "$work/trees/$2/$3/files" && rr_list_here tree/ .)
    fi
    shift 3
  fi
  rr_list_here '' "$@"
}

# PREFIX PATH…
rr_list_here() {
  local prefix="$1" path
  shift
  if find . -prune -printf '' 2>/dev/null; then
    for path in "$@"; do
      # A file that vanishes meanwhile is no error of ours.
      if [ ! -e "$path" ] && [ ! -L "$path" ]; then continue; fi
      find "$path" -printf "%y\\0%s\\0%T@\\0$prefix%p\\0%l\\0" 2>/dev/null
    done
    return 0
  fi
  for path in "$@"; do
    if [ ! -e "$path" ] && [ ! -L "$path" ]; then continue; fi
    # shellcheck disable=SC2016
    find "$path" -exec sh -c 'prefix=$1; shift
      for f; do
        if [ -L "$f" ]; then kind=l; elif [ -d "$f" ]; then kind=d; elif [ -f "$f" ]; then kind=f; else kind=o; fi
        size=$(stat -c %s "$f" 2>/dev/null) && time=$(stat -c %Y "$f") || continue
        printf "%s\0%s\0%s\0%s\0%s\0" "$kind" "$size" "$time" "$prefix$f" "$(readlink "$f" 2>/dev/null)"
      done' sh "$prefix" {} +
  done
}

# rr_pack WORKDIR ID SIZE: a tar of the files that descriptor 3 names (SIZE bytes). What vanishes or changes meanwhile is
# no error: whoever reads it looks at the files again afterwards.
rr_pack() {
  cd "$(rr_home "$1")/jobs/$2" || return 3
  rr_take "$3" <&3 | tar --null -T - -cf - --no-recursion 2>/dev/null
  return 0
}

# rr_pack_tree WORKDIR KEY TREE SIZE: the same of a pristine snapshot.
rr_pack_tree() {
  cd "$(rr_home "$1")/trees/$2/$3/files" || return 3
  rr_take "$4" <&3 | tar --null -T - -cf - --no-recursion
}

# rr_part WORKDIR ID PATH FROM TO [SUM]: bytes FROM to TO of one file, behind a line with the offset that they begin at:
# FROM, if the file's first FROM bytes have this SHA-256, else 0. A file that has become shorter is filled up with zeros:
# the reader looks at it again. 4: it is no longer there.
rr_part() {
  local from="$4" sum
  cd "$(rr_home "$1")/jobs/$2" || return 3
  [ -f "$3" ] && [ ! -L "$3" ] || return 4
  if [ "$from" -gt 0 ]; then
    sum=$(head -c "$from" "$3" | sha256sum)
    [ "${sum%% *}" = "$6" ] || from=0
  fi
  printf '%s\n' "$from"
  { tail -c "+$((from + 1))" "$3" && cat /dev/zero; } 2>/dev/null | head -c "$(($5 - from))"
}
