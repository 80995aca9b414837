# shellcheck shell=sh disable=SC3043
# The job's tmux session: a view of the log and of the GPUs, to look at, to detach from, to press Ctrl-C in.
# The job does not live in it, so that no tmux server can take the job along; it can be made anew at any time.

# Where the socket and the configuration are: the workdir if its disk is the host's own, else a private folder
# in /var/tmp, which cleaners leave alone while the server lives. A socket's path is at most 107 bytes.
rr_tmux_place() {
  local work="$1" name dir
  name=tmux-$(uname -n)
  case $(stat -f -c %T "$work" 2>/dev/null) in
    nfs* | cifs | smb* | fuse* | lustre | gpfs | ceph | afs | beegfs | UNKNOWN*) ;;
    *)
      if [ "${#work}" -lt 60 ] && { [ -d "$work/$name" ] || mkdir -m 700 "$work/$name"; }; then
        printf %s "$work/$name"
        return
      fi
      ;;
  esac
  dir=/var/tmp/remoterun-$(id -u)-$(printf %s "$work" | cksum | tr -d ' ')
  mkdir -m 700 "$dir" 2>/dev/null
  # Somebody else's folder or link by that name is not ours to use.
  [ -d "$dir" ] && [ ! -L "$dir" ] && [ -O "$dir" ] && printf %s "$dir"
}

# rr_session TMUX JOB: make sure that the job's session is there. Prints the socket.
rr_session() {
  local tmux="$1" job="$2" id work place pid
  id=${job##*/}
  work=${job%/jobs/*}
  place=$(rr_tmux_place "$work") || return 1
  # A deleted socket: the server makes it again when told so.
  if [ ! -S "$place/socket" ] && pid=$(rr_get "$place/server" pid) && rr_alive "$pid" "$(rr_get "$place/server" ticks)"; then
    kill -USR1 "$pid"
    rr_nap 0.1
  fi
  printf '%s/socket\n' "$place"
  if "$tmux" -S "$place/socket" has-session -t "=$id" 2>/dev/null; then return; fi
  rr_tmux_conf | rr_put "$place/tmux.conf"
  # A server of a clean environment: it would hand its own to every later session.
  env -u TMUX -u TMUX_PANE -u REMOTERUN_JOB TERM="${TERM:-screen}" \
    "$tmux" -u -S "$place/socket" -f "$place/tmux.conf" new-session -d -s "$id" -n job -x 200 -y 50 \
    "exec sh $(rr_quote "$job/view.sh") log" \; \
    new-window -d -t "=$id:1" -n gpus "exec sh $(rr_quote "$job/view.sh") gpus $(rr_quote "$tmux") $(rr_quote "$place/socket")" || return
  pid=$("$tmux" -S "$place/socket" display-message -p '#{pid}')
  printf 'pid=%s\nticks=%s\n' "$pid" "$(rr_ticks "$pid")" | rr_put "$place/server"
}

# One word for sh.
rr_quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

rr_tmux_conf() {
  cat <<'END'
set -g default-terminal screen-256color
set -g history-limit 50000
set -g mouse on
set -g status-left-length 60
set -g status-left '#{session_name} '
set -g status-right 'detach: C-b d  GPUs: C-b 1 '
set -g base-index 0
set -g remain-on-exit off
set -g update-environment ''
END
}
