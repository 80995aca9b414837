# shellcheck shell=sh disable=SC3043
# The last words of an ejected launch: where the job is, and how to look after it without remoterun.

# rr_ejected STATUS JOB TMUX: what became of rr_start, which ended with STATUS. Returns it, or the job's own status if that
# has ended already.
rr_ejected() {
  local job="$2" folder code
  if [ "$1" != 0 ]; then
    echo "nothing was started; remoterun launch --eject makes a script for another job" >&2
    return "$1"
  fi
  folder=$(rr_quote "$job")
  printf 'job %s of %s on %s\n' "${job##*/}" "$(id -un)" "$(uname -n)"
  printf '  log      tail -f %s/log\n' "$folder"
  if [ -n "$3" ]; then
    printf '  session  %s -S %s/socket attach -t =%s\n' "$3" "$(rr_quote "$(rr_tmux_place "${job%/jobs/*}")")" "${job##*/}"
  fi
  # shellcheck disable=SC2016
  printf '  end it   kill $(sed -n s/^main=//p %s/main)\n' "$folder"
  printf '  outputs  %s/out\n' "$folder"
  [ -e "$job/exit" ] || return 0
  if rr_get "$job/exit" refused >/dev/null; then
    echo 'it did not start: somebody holds its GPUs' >&2
    return 1
  fi
  code=$(rr_get "$job/exit" code)
  printf 'it has ended already, with status %s\n' "${code:-unknown}"
  return "${code:-1}"
}
