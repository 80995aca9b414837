# shellcheck shell=sh disable=SC3043
# Making a job on the host: its folder aside and then renamed, its supervisor, its tmux session.

# rr_start WORKDIR ID KEY TREE BASE SIZE SHELL TMUX SETTLE [FROM [RESUME]]: descriptor 3 holds SIZE bytes, a compressed tar of
#   job/     the small files of the job's folder
#   tree/    files of the snapshot that the host does not have (relative to BASE when that is given)
#   removed  names, each ended by NUL, that BASE has and the snapshot has not, or has otherwise
#   manifest the snapshot's own list
#   whole    the mark that nothing is missing
# KEY is the project; SHELL the login shell that gives the job its environment, or empty; TMUX a tmux or empty;
# SETTLE see rr_begin; FROM is a job whose environment, news and (with RESUME) newest checkpoint the new one takes over.
# Prints key=value lines. Status 75: the payload may not have been read whole, nothing was made.
rr_start() {
  local work="$1" id="$2" key="$3" tree="$4" base="$5" size="$6" aside code
  umask 077
  # The one who asked may vanish at any moment: from the rename on the job starts all the same.
  # A handler, not "ignore": the job must not inherit it.
  trap : PIPE HUP
  mkdir -p "$work/jobs" "$work/trees/$key" || return 75
  cd "$work" || return 75
  rr_sweep jobs
  rr_sweep "trees/$key"
  aside="jobs/.aside.$id.$$"
  if [ -e "jobs/$id" ] || ! mkdir "$aside"; then
    echo "a job $id is there already" >&2
    return 75
  fi
  if ! { rr_take "$size" <&3 | tar -xzpf - -C "$aside" && [ -f "$aside/whole" ]; }; then
    rr_no_room . "the job's files did not arrive whole"
    rm -rf "$aside"
    return 75
  fi
  rr_inherit "${10-}" "${11-}" "$aside/job" && rr_tree "$key" "$tree" "$base" "$aside" && rr_make "$key" "$tree" "$aside" "$id"
  code=$?
  rm -rf "$aside"
  [ "$code" = 0 ] || return "$code"
  rr_begin "$work/jobs/$id" "$7" "$8" "$9"
}

# rr_sync WORKDIR KEY TREE BASE SIZE: only the snapshot, of a payload like that of rr_start but without job/.
rr_sync() {
  local work="$1" aside code
  umask 077
  trap : PIPE HUP
  mkdir -p "$work/jobs" "$work/trees/$2" || return 75
  cd "$work" || return 75
  rr_sweep jobs
  aside="jobs/.aside.sync.$$"
  mkdir "$aside" || return 75
  if ! { rr_take "$5" <&3 | tar -xzpf - -C "$aside" && [ -f "$aside/whole" ]; }; then
    rr_no_room . 'the files did not arrive whole'
    rm -rf "$aside"
    return 75
  fi
  rr_tree "$2" "$3" "$4" "$aside"
  code=$?
  rm -rf "$aside"
  return "$code"
}

# Remove what a killed predecessor left aside: its shell's pid ends the name.
rr_sweep() {
  local old
  for old in "$1"/.aside.*; do
    [ -d "$old" ] || continue
    [ -e "/proc/${old##*.}" ] || rm -rf "$old"
  done
}

# Say what is wrong in FOLDER's file system, after a failure.
rr_no_room() {
  echo "$2" >&2
  df -Pk "$1" | sed -n '2s/^.* \([0-9][0-9]*\) *[0-9]*% /free KiB \1 on /p' >&2
}

# The pristine tree of a snapshot: made once from its base and the files that came, never touched again.
rr_tree() {
  local place="trees/$1" tree="$2" base="$3" aside="$4" new
  if [ -d "$place/$tree" ]; then
    # The newest is what the next launch is compared with.
    touch -c "$place/$tree"
    return 0
  fi
  new="$place/.aside.$tree.$$"
  if [ -n "$base" ]; then
    # Hard links are safe here: no job gets a pristine tree, and what changes is removed before it is made anew.
    cp -al "$place/$base" "$new" || { rm -rf "$new"; rr_no_room . "copying $base failed"; return 1; }
    (cd "$new/files" && xargs -0 rm -rf --) <"$aside/removed"
    rm -f "$new/manifest"
  elif [ ! -d "$aside/tree" ]; then
    echo "the snapshot $tree is no longer there" >&2
    return 8
  else
    mkdir -p "$new/files"
  fi
  if ! { cp -al "$aside/tree/." "$new/files/" && cp "$aside/manifest" "$new/manifest"; }; then
    rm -rf "$new"
    rr_no_room . 'writing the snapshot failed'
    return 1
  fi
  mv -T "$new" "$place/$tree" 2>/dev/null || rm -rf "$new"
  touch -c "$place/$tree"
  [ -d "$place/$tree" ]
}

# FROM RESUME NEW: what a rerun takes over from the job FROM. Its secrets never leave the host. 9: no checkpoint.
rr_inherit() {
  local from="jobs/$1" name
  [ -n "$1" ] || return 0
  if [ ! -f "$from/job.json" ]; then
    echo "the job $1 is no longer there" >&2
    return 1
  fi
  # What is given anew comes behind, and wins.
  for name in env notify; do
    [ ! -f "$from/$name" ] || { cat "$from/$name" && if [ -f "$3/$name" ]; then cat "$3/$name"; fi; } | rr_put "$3/$name" || return 1
  done
  [ -n "$2" ] || return 0
  name=$(cd "$from" && rr_newest_checkpoint)
  # One that was itself resumed, and has saved nothing since.
  [ -n "$name" ] || name=$(rr_line "$from/resume")
  if [ -z "$name" ] || [ ! -e "$name" ]; then
    echo "no checkpoint is in the folder of $1" >&2
    return 9
  fi
  printf '%s\n' "$name" | rr_put "$3/resume"
}

# The job's folder: complete, then renamed into its place.
rr_make() {
  local from="trees/$1/$2/files" aside="$3" id="$4" copy=--reflink=auto
  cp --reflink=auto /dev/null "$aside/job/code.probe" 2>/dev/null || copy=
  rm -f "$aside/job/code.probe"
  # shellcheck disable=SC2086
  if ! cp -a $copy "$from" "$aside/job/code"; then
    rr_no_room . "copying the snapshot failed"
    return 1
  fi
  mkdir -p "$aside/job/out" "$aside/job/ranks"
  : >"$aside/job/log"
  # Room for the record of the end, should the disk be full by then.
  printf '%512s' '' | tr ' ' '\n' >"$aside/job/reserve"
  rr_event "$aside/job" starting ''
  mv -T "$aside/job" "jobs/$id"
}

# Start the supervisor in a session of its own, then wait until it says so, or the job has ended already.
# SETTLE: how long to look for an immediate end, in twentieths of a second.
rr_begin() {
  local job="$1" shell="$2" tmux="$3" settle="$4" waited=0
  # The path goes through the environment: login shells do not agree on how to quote it.
  RR_SUPERVISE="$job/supervise.sh"
  export RR_SUPERVISE
  # A launch from inside another job: this one is not a part of it.
  unset REMOTERUN_JOB REMOTERUN_OUT REMOTERUN_ATTEMPT
  # By the login shell, so that the job sees what the login's start-up files say today.
  case $shell in
    '') set -- sh "$RR_SUPERVISE" ;;
    # These take -l only alone, and read .cshrc in any case.
    *csh) set -- "$shell" -c "exec sh \"\$RR_SUPERVISE\"" ;;
    *) set -- "$shell" -l -c "exec sh \"\$RR_SUPERVISE\"" ;;
  esac
  rr_detached "$@" >/dev/null 2>"$job/supervise.err" </dev/null 3>&-
  while [ ! -e "$job/start" ] && [ ! -e "$job/exit" ] && [ ! -e "$job/queued" ] && [ "$waited" -lt 500 ]; do
    rr_nap 0.02
    waited=$((waited + 1))
  done
  # The view is for later; the log is waited for now.
  if [ -n "$tmux" ]; then rr_session "$tmux" "$job" >/dev/null 2>&1 </dev/null 3>&- & fi
  while [ ! -e "$job/exit" ] && [ ! -e "$job/queued" ] && [ "$settle" -gt 0 ]; do
    rr_nap 0.05
    settle=$((settle - 1))
  done
  rr_show "$job"
  [ -e "$job/start" ] || rr_line "$job/supervise.err" >&2
}
