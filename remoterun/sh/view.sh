# shellcheck shell=sh disable=SC3043
# What runs in the panes of a job's tmux session; stands in the job's folder after lib.sh.

rr_view() {
  cd "$1" || exit 1
  case $2 in
    log) if [ -e tty ]; then rr_view_terminal; else rr_view_log; fi ;;
    gpus) rr_view_gpus "$3" "$4" ;;
  esac
}

# The job's own terminal: its bytes as they come, every key to it (Ctrl-C too), and this pane's size.
rr_view_terminal() {
  local follower keys
  trap : INT QUIT
  trap rr_view_size WINCH
  rr_saved=$(stty -g)
  stty raw -echo
  tail -n 200 -f log &
  follower=$!
  cat </dev/tty >tty.in &
  keys=$!
  while rr_goes_on; do
    rr_view_size
    sleep 0.5 &
    wait $!
  done
  rr_nap 0.5
  kill "$follower" "$keys" 2>/dev/null
  stty "$rr_saved"
  rr_view_ended
}

# As large as this pane; the kernel tells the job's foreground process of a change.
rr_view_size() {
  local size
  size=$(stty size)
  [ "$size" = "${rr_size-}" ] || [ ! -s tty.name ] || {
    rr_size=$size
    stty -F "$(rr_line tty.name)" rows "${size% *}" cols "${size#* }" 2>/dev/null
  }
}

# Whether more may come of the job.
rr_goes_on() {
  [ ! -e exit ] || return 1
  [ ! -e start ] || rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)" ||
    rr_alive "$(rr_get main main)" "$(rr_get main main_ticks)"
}

rr_view_ended() {
  printf '\n-- %s: %s, exit status %s. This view closes in a minute; C-b d leaves it now.\n' \
    "${PWD##*/}" "$(rr_get exit state)" "$(rr_get exit code)"
  sleep 60
}

# The live log. Ctrl-C twice within three seconds reaches the training: once is too easily meant for the view.
rr_view_log() {
  local follower looks=0
  rr_asked=0
  trap rr_view_interrupt INT
  trap '' QUIT TSTP
  tail -n 2000 -f log &
  follower=$!
  # Every look costs the host a process: the log itself comes at once, its end may be told two seconds late, and that
  # everything was killed twenty.
  while [ ! -e exit ]; do
    sleep 2
    looks=$(((looks + 1) % 10))
    [ "$looks" != 0 ] || rr_goes_on || break
  done
  kill "$follower" 2>/dev/null
  trap - INT
  rr_view_ended
}

rr_view_interrupt() {
  local now
  now=$(date +%s)
  if [ $((now - rr_asked)) -gt 3 ]; then
    rr_asked=$now
    printf '\n-- Ctrl-C once more sends SIGINT to the training; C-b d leaves it running.\n'
    return
  fi
  rr_asked=0
  printf '\n-- SIGINT sent to the training.\n'
  # As a terminal does it: to the whole process group. The supervisor stands in it and only takes note.
  if rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)"; then
    kill -INT "-$(rr_get start group)"
  elif rr_alive "$(rr_get main main)" "$(rr_get main main_ticks)"; then
    kill -s INT "$(rr_get main main)"
  fi
}

# The GPUs, asked for only while somebody looks: frequent queries can slow a training down.
rr_view_gpus() {
  local pause
  while [ ! -e exit ]; do
    pause=10
    if [ "$("$1" -S "$2" display-message -p -t "$TMUX_PANE" '#{session_attached}#{window_active}' 2>/dev/null)" != 00 ]; then
      pause=3
      printf '\033[H\033[2J'
      if command -v nvidia-smi >/dev/null 2>&1; then
        timeout -k 2 20 nvidia-smi </dev/null
      else
        echo 'no nvidia-smi on this host'
        uptime
      fi
    fi
    sleep "$pause"
  done
}
