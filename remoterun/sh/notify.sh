# shellcheck shell=sh disable=SC3043
# News of a job, told by its host: a command there, a web address, an ntfy topic. Addresses hold tokens, so they
# reach curl or wget on their standard input, never on a command line that `ps` shows.

# WHAT (end, lost, stall, restart): tell each target of the file `notify`. An end is told once.
rr_tell() {
  local what="$1" kind target title text
  [ -s notify ] && ! rr_get exit refused >/dev/null || return 0
  case $what in end | lost) mkdir .told 2>/dev/null || return 0 ;; esac
  title="${PWD##*/} $(rr_told_state "$what")"
  text=$(rr_told_text "$what")
  while IFS=' ' read -r kind target; do
    case $kind in
      command) rr_tell_command "$what" "$title" "$text" "$target" ;;
      url) rr_told_json "$what" "$title" "$text" | rr_tell_web 'Content-Type: application/json' "$target" ;;
      ntfy) printf '%s' "$text" | rr_tell_web "Title: $title" "$target" ;;
    esac || rr_event . "$(rr_told_state "$what")" "a notification by $kind failed"
  done <notify
}

# The state that goes with the news.
rr_told_state() {
  case $1 in
    end) rr_get exit state || echo lost ;;
    lost) echo lost ;;
    stall) echo stalled ;;
    restart) echo restarting ;;
  esac
}

# A few lines for people.
rr_told_text() {
  printf '%s on %s: %s' "${PWD##*/}" "$(uname -n)" "$(rr_told_state "$1")"
  case $1 in
    end) [ "$(rr_get exit state)" = succeeded ] || printf ', exit status %s' "$(rr_get exit code)" ;;
    restart) printf ' as attempt %s after exit status %s' "$(rr_get pause attempt)" "$(rr_get pause code)" ;;
    stall) printf ': its log is silent and its GPUs are idle' ;;
  esac
  printf '\n%s\n' "$(tail -c 600 log | tr -d '\000-\010\013-\037' | tail -n 5)"
}

rr_told_json() {
  local code
  code=$(rr_get exit code)
  printf '{"schema":1,"event":"%s","job":"%s","host":"%s","state":"%s","exit_code":%s,"time":"%s","title":"%s","text":"%s"}' \
    "$1" "${PWD##*/}" "$(uname -n)" "$(rr_told_state "$1")" "${code:-null}" "$(rr_now)" \
    "$(printf %s "$2" | rr_json)" "$(printf %s "$3" | rr_json)"
}

# Text inside of a JSON string. Bytes that are no UTF-8 are left out where iconv is there to find them.
rr_json() {
  { iconv -c -f UTF-8 -t UTF-8 2>/dev/null || cat; } | tr '\t\r' '  ' | sed 's/["\\]/\\&/g' |
    sed -e ':more' -e '$!{N' -e 'b more' -e '}' -e 's/\n/\\n/g'
}

# WHAT TITLE TEXT LINE: a shell line on the host. Its variables do not make it a part of the job.
rr_tell_command() {
  printf '%s\n' "$3" | env -u REMOTERUN_JOB REMOTERUN_EVENT="$1" REMOTERUN_TITLE="$2" REMOTERUN_JOB_ID="${PWD##*/}" \
    REMOTERUN_STATE="$(rr_told_state "$1")" REMOTERUN_EXIT_CODE="$(rr_get exit code)" \
    timeout -k 2 60 sh -c "$4" >/dev/null 2>>notify.log
}

# HEADER ADDRESS: post stdin.
rr_tell_web() {
  cat >notify.body || return 1
  if command -v curl >/dev/null 2>&1; then
    printf 'url = "%s"\n' "$2" |
      curl -fsS -m 20 --retry 2 -o /dev/null -H "$1" --data-binary @notify.body -K - 2>>notify.log
  elif command -v wget >/dev/null 2>&1; then
    printf '%s\n' "$2" | wget -q -T 20 -t 2 -O /dev/null --header "$1" --post-file notify.body -i - 2>>notify.log
  else
    echo 'neither curl nor wget is on this host' >>notify.log
    return 1
  fi
}
