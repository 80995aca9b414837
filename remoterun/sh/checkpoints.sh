# shellcheck shell=sh disable=SC3043
# Finding a job's checkpoints: for its next attempt, and for a rerun.

# The newest checkpoint that the job has left in its folder, by the names that trainers give them; or by the
# job's own pattern in the file `checkpoint`. Unfinished ones (hidden, or named tmp or part) do not count.
rr_newest_checkpoint() {
  local file newest='' mine
  mine=$(rr_line checkpoint)
  if [ -n "$mine" ]; then
    # shellcheck disable=SC2086
    set -- $mine
  else
    set -- out/checkpoints/* out/checkpoint[-_]* out/ckpt* out/step[-_]* out/epoch[-_]* out/*.pt out/*.pth out/*.ckpt
    mine=$(rr_line folder)
    mine=code${mine:+/$mine}
    set -- "$@" "$mine"/checkpoints/* "$mine"/checkpoint[-_]*
  fi
  for file in "$@"; do
    [ -e "$file" ] || continue
    case ${file##*/} in .* | *tmp* | *.part | *.partial | *.incomplete) continue ;; esac
    # shellcheck disable=SC3013 # -nt: dash, bash and busybox all have it.
    # Of two of one age the later name: step-9 and step-10 are seldom written in one tick of the disk's clock.
    if [ -z "$newest" ] || ! [ "$newest" -nt "$file" ]; then newest=$file; fi
  done
  [ -z "$newest" ] || printf '%s/%s' "$PWD" "$newest"
}
