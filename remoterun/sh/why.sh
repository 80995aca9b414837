# shellcheck shell=sh disable=SC3043
# The evidence of one job's end, in the raw; host/evidence.py reads it.

# rr_why WORKDIR ID: the job's signs and files, then what only a post-mortem asks for.
rr_why() {
  local job from=0 at
  job=$(rr_home "$1")/jobs/$2
  [ -f "$job/job.json" ] || return 3
  printf 'boot=%s\nhost=%s\nnow=%s\n' "$(rr_boot)" "$(rr_host)" "$(date +%s)"
  rr_show "$job"
  cd "$job" || return 3
  printf 'uptime=%s\noom_kills_now=%s\n' "$(rr_uptime)" "$(rr_oom_kills)"
  df -Pk . | sed -n '2s/^.*  *[0-9][0-9]*  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% \(.*\)$/free_kib=\1\nmounted_on=\2/p'
  df -Pi . 2>/dev/null | sed -n '2s/^.*  *[0-9][0-9]*  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% .*$/free_inodes=\1/p'
  for at in events attempts stop.log stacks notify.log; do
    [ ! -s "$at" ] || rr_give "$at" "$(tail -c 8192 "$at" | tr -d '\000')"
  done
  # The last attempt's part of the log.
  if [ -s attempts ]; then from=$(tail -n 1 attempts | cut -d ' ' -f 5); fi
  # grep -b counts from the beginning of what it reads. A log of many gigabytes must not keep us for minutes.
  at=$(tail -c "+$((from + 1))" log | timeout 20 grep -abo -m 1 'Traceback (most recent call last)' | sed -n '1s/:.*//p')
  if [ -n "$at" ]; then
    rr_give traceback "$(tail -c "+$((from + at + 1))" log | head -c 16384 | tr -d '\000')"
    printf 'traceback_at=%s\n' "$((from + at))"
    # The line's own beginning holds the rank, when it is not rank 0.
    at=$((from + at))
    rr_give before "$(tail -c "+$((at > 200 ? at - 199 : 1))" log | head -c "$((at > 200 ? 200 : at))" | tr -d '\000' | tail -n 1)"
  fi
  rr_give end "$(tail -c "+$((from + 1))" log | tail -c 32768 | tr -d '\000')"
  rr_give kernel "$(rr_kernel_log)"
  [ ! -s gpu.csv ] || rr_give gpu.csv "$(tail -n 64 gpu.csv)"
}

# Lines of the kernel's log that kill trainings. Nothing where this login may not read it: then the line
# kernel_log=unreadable.
rr_kernel_log() {
  local text
  text=$(dmesg 2>/dev/null) || text=$(journalctl -kb -q -o short-monotonic --no-pager 2>/dev/null)
  if [ -z "$text" ]; then
    echo unreadable
    return
  fi
  printf '%s\n' "$text" |
    grep -E 'NVRM: Xid|Out of memory|oom-kill|oom_reaper|Killed process|I/O error|blocked for more than|segfault|fallen off the bus|EXT4-fs error|XFS .*(error|shutdown)' |
    tail -n 60
}
