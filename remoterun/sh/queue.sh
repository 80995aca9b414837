# shellcheck shell=sh disable=SC3043
# Waiting for GPUs on the host itself, in the job's own session: no laptop needs to be on. Whoever waits has a ticket
# in the place of the leases, which all logins can read; the older one goes first. Tickets end with their processes.

# PLACE: take a ticket, wait, run. `wait` says how many GPUs (count) of which (any, in the order of preference).
rr_queue() {
  local dir="$1" ticket said='' uuid ahead left
  ticket=$(printf '%s/ticket.%012d.%s.%s' "$dir" "$(rr_centiseconds)" "$(id -u)" "$$")
  (
    umask 022
    printf 'job=%s\nuser=%s\nsince=%s\npid=%s\nticks=%s\ncount=%s\nany=%s\n' "${PWD##*/}" "$(id -un)" "$(rr_now)" "$$" \
      "$(rr_ticks $$)" "$(rr_get wait count)" "$(rr_get wait any)" | rr_put "$ticket"
  )
  # Given back by the process that got the GPUs.
  RR_TICKET=$ticket
  export RR_TICKET
  while [ ! -e stop ] && [ ! -e exit ]; do
    RR_CHOSEN='' RR_WHY=''
    ahead=$(rr_ahead "$dir" "$ticket")
    if [ -n "$ahead" ]; then RR_WHY="waits behind $ahead"; else rr_choose_free "$dir"; fi
    if [ -n "$RR_CHOSEN" ]; then
      printf '%s\n' "$RR_CHOSEN" | rr_put gpus
      printf 'export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%s\n' "$RR_CHOSEN" | rr_put gpus.env
      rr_with_leases "$dir"
      [ ! -e start ] || break
      RR_WHY='waits: somebody was quicker'
    fi
    if [ "$RR_WHY" != "$said" ]; then
      said=$RR_WHY
      printf 'pid=%s\nticks=%s\nboot=%s\nsince=%s\nwhy=%s\n' "$$" "$(rr_ticks $$)" "$(rr_boot)" "$(rr_get "$ticket" since)" "$said" | rr_put queued
      rr_event . queued "$said"
    fi
    left=3
    while [ "$left" -gt 0 ] && [ ! -e stop ]; do
      sleep 1
      left=$((left - 1))
    done
  done
  rm -f "$ticket"
}

# PLACE TICKET: who stands in front of it for one of the same GPUs.
rr_ahead() {
  local other any
  any=,$(rr_get "$2" any),
  for other in "$1"/ticket.*; do
    [ "$other" != "$2" ] || return 0
    if rr_waits "$other" && rr_common "$any" "$(rr_get "$other" any)"; then
      printf 'job %s of %s, which waits for %s' "$(rr_get "$other" job)" "$(rr_get "$other" user)" "$(rr_get "$other" count)"
      return 0
    fi
  done
}

# TICKET: whether its process lives.
rr_waits() { [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ] && rr_alive "$(rr_get "$1" pid)" "$(rr_get "$1" ticks)"; }

# ,A,B, C,D: whether a name stands in both lists.
rr_common() {
  local IFS=, name
  for name in $2; do
    case $1 in *",$name,"*) return 0 ;; esac
  done
  return 1
}

# PLACE: RR_CHOSEN, when enough of the wanted GPUs are free at this moment; else RR_WHY.
rr_choose_free() {
  local dir="$1" IFS count free=0 table apps row uuid used total chosen='' held=0
  count=$(rr_get wait count)
  if ! table=$(rr_ask_smi --query-gpu=uuid,memory.used,memory.total) ||
    ! apps=$(rr_ask_smi --query-compute-apps=gpu_uuid,pid); then
    RR_WHY='waits: nvidia-smi does not answer'
    return 0
  fi
  for uuid in $(rr_get wait any | tr , ' '); do
    rr_lease_mark "$dir" "$uuid" || continue
    if ! flock -n -s "$dir/$uuid" true; then
      held=$((held + 1))
      continue
    fi
    case $apps in *"$uuid"*) continue ;; esac
    row=$(printf '%s\n' "$table" | grep -F "$uuid," | tr -d ' ')
    used=${row#*,}
    total=${used#*,}
    used=${used%%,*}
    # What cannot be read is not free. The limits are those of host/gpu_health.py.
    case $used$total in '' | *[!0-9]*) continue ;; esac
    if [ "$used" -ge 500 ] && [ "$used" -ge $((total / 50)) ]; then continue; fi
    free=$((free + 1))
    if [ "$free" -le "$count" ]; then chosen=${chosen:+$chosen,}$uuid; fi
  done
  if [ "$free" -ge "$count" ]; then
    RR_CHOSEN=$chosen
  else
    RR_WHY="waits for $count GPUs: $free free, $held held by jobs"
  fi
}

rr_ask_smi() { timeout -k 2 20 nvidia-smi "$@" --format=csv,noheader,nounits </dev/null 2>/dev/null; }

# The chosen GPUs once more, under their locks: whether a process has come that was not there when they were chosen
# (`seen` has those that were). Where nobody can tell, they are taken.
rr_unused() {
  local apps row pid known
  command -v nvidia-smi >/dev/null 2>&1 || return 0
  apps=$(rr_ask_smi --query-compute-apps=gpu_uuid,pid) || return 0
  known=" $(rr_line seen) "
  for row in $(printf '%s\n' "$apps" | tr -d ' '); do
    pid=${row#*,}
    case ,$(rr_line gpus), in *",${row%%,*},"*) ;; *) continue ;; esac
    case $known in *" $pid "*) ;; *) return 1 ;; esac
  done
}

# The tickets of all who wait: lines of ticket=JOB USER COUNT SINCE UUIDS.
rr_tickets() {
  local ticket
  for ticket in "$(rr_lease_folder)"/ticket.*; do
    rr_waits "$ticket" || continue
    printf 'ticket=%s %s %s %s %s\n' "$(rr_get "$ticket" job)" "$(rr_get "$ticket" user)" "$(rr_get "$ticket" count)" \
      "$(rr_get "$ticket" since)" "$(rr_get "$ticket" any)"
  done
}

rr_leases_and_tickets() {
  rr_leases
  rr_tickets
}
