# shellcheck shell=sh disable=SC3043
# One look at a host's GPUs: the raw answers of nvidia-smi and ps in sections, for host/gpus.py to read. Nothing
# here judges. Sections: `NONCE begin NAME`, the output, `NONCE err` and the error output, `NONCE rc STATUS`.

# rr_gpus NONCE SECONDS TIER [DEEP]: SECONDS bound each nvidia-smi; TIER chooses the newer fields to ask for: 3 all, 2 without
# the recovery action, 1 memory.reserved and compute_cap only, 0 none. An old driver refuses a query for one unknown
# field, so they are asked apart from the core, and each refusal goes one tier down.
rr_gpus() {
  local LC_ALL=C nonce="$1" bound="$2" tier="$3" deep="${4-1}" apps pids fields core
  if ! command -v nvidia-smi >/dev/null 2>&1; then
    printf '\n%s none\n%s end\n' "$nonce" "$nonce"
    return 0
  fi
  core=$(rr_section "$nonce" core rr_smi "$bound" \
    --query-gpu=index,uuid,pci.bus_id,driver_version,utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,temperature.gpu,power.draw,power.limit,fan.speed,pstate,compute_mode,persistence_mode,display_active,mig.mode.current,name)
  printf '%s\n' "$core"
  # A driver that cannot answer this cannot answer the rest; a hanging one is not asked twice.
  case $core in
    *GPU-*) ;;
    *)
      printf '\n%s end\n' "$nonce"
      return 0
      ;;
  esac
  while [ "$tier" -gt 0 ]; do
    case $tier in
      3) fields=,fabric.state,fabric.status,gpu_recovery_action ;;
      2) fields=,fabric.state,fabric.status ;;
      *) fields= ;;
    esac
    pids=$(rr_section "$nonce" "ext$tier" rr_smi "$bound" "--query-gpu=uuid,memory.reserved,compute_cap$fields")
    printf '%s\n' "$pids"
    case $pids in *'not a valid field'*) tier=$((tier - 1)) ;; *) break ;; esac
  done
  apps=$(rr_section "$nonce" apps rr_smi "$bound" --query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name)
  printf '%s\n' "$apps"
  pids=$(rr_app_pids "$apps")
  if [ -n "$pids" ]; then
    rr_section "$nonce" ps rr_ps "$pids"
    [ -n "$deep" ] && rr_section "$nonce" jobs rr_jobs_of "$pids"
  fi
  case $core in *', Enabled, '*) rr_section "$nonce" list rr_smi_plain "$bound" -L ;; esac
  case $core in *'[N/A], [N/A], [N/A]'*) rr_section "$nonce" mem cat /proc/meminfo ;; esac
  printf '\n%s end\n' "$nonce"
}

rr_section() {
  local nonce="$1" err status
  printf '\n%s begin %s\n' "$nonce" "$2"
  shift 2
  { err=$("$@" </dev/null 2>&1 1>&4 4>&-); status=$?; } 4>&1
  [ -z "$err" ] || printf '\n%s err\n%s\n' "$nonce" "$err"
  printf '\n%s rc %s\n' "$nonce" "$status"
}

rr_smi() { rr_smi_plain "$@" --format=csv,noheader,nounits; }

rr_smi_plain() {
  local bound="$1"
  shift
  if command -v timeout >/dev/null 2>&1; then timeout -k 2 "$bound" nvidia-smi "$@"; else nvidia-smi "$@"; fi
}

# The pids in rows of --query-compute-apps, each once, joined by commas. No process is started.
rr_app_pids() {
  local IFS line pid all=,
  IFS='
'
  set -f
  for line in $1; do
    case $line in GPU-*,*) ;; *) continue ;; esac
    pid=${line#*,}
    pid=${pid%%,*}
    pid=${pid# }
    case $pid in '' | *[!0-9]*) continue ;; esac
    case $all in *",$pid,"*) ;; *) all=$all$pid, ;; esac
  done
  set +f
  all=${all#,}
  printf %s "${all%,}"
}

# Owner, age and command of some processes; old procps and busybox know fewer columns.
rr_ps() {
  ps -ww -o pid=,ppid=,sess=,user:32=,etimes=,args= -p "$1" 2>/dev/null || {
    # shellcheck disable=SC2009
    ps -o pid,user,args | grep -E "^ *($(printf %s "$1" | tr , '|')) "
  }
}

# The jobs that processes belong to, as their environment says: readable for one's own alone.
rr_jobs_of() {
  local pid job
  for pid in $(printf %s "$1" | tr , ' '); do
    job=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^REMOTERUN_JOB=//p')
    [ -z "$job" ] || echo "$pid $job"
  done
}

# rr_look_gpus PATHS …: the same with the host's PATH as rr_facts makes it (without asking the login shell again).
rr_look_gpus() {
  rr_path "$1" ''
  shift
  rr_gpus "$@"
}

# rr_round PATHS NONCE SECONDS TIER DEEP WORKDIR: one refresh of a host that is watched. Load and memory, leases, GPUs; but
# for ps and nvidia-smi no program is started, unless DEEP is 1, which adds what changes slowly.
rr_round() {
  local LC_ALL=C began
  began=$(rr_centiseconds)
  printf 'load=%s\n' "$(rr_line /proc/loadavg)"
  rr_memory
  if [ -n "$5" ]; then rr_slow_facts "$6"; fi
  rr_leases
  rr_path "$1" ''
  rr_gpus "$2" "$3" "$4" "$5"
  printf '%s took %s\n' "$2" "$(($(rr_centiseconds) - began))"
}

# What changes slowly: whose login this is, its processors, the disk under its workdir.
rr_slow_facts() {
  local found
  found=$(rr_home "$1")
  while [ ! -d "$found" ] && [ "$found" != / ]; do found=$(dirname "$found"); done
  printf 'user=%s\ncpus=%s\n' "$(id -un 2>/dev/null || id -u)" "$(nproc 2>/dev/null)"
  df -Pk "$found" | sed -n '2s/^.*  *\([0-9][0-9]*\)  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% .*$/disk_total=\1\ndisk_available=\2/p'
}

# The machine's memory in KiB.
rr_memory() {
  local key value rest
  while read -r key value rest; do
    case $key in
      MemTotal:) printf 'memory_total=%s\n' "$value" ;;
      MemAvailable:)
        printf 'memory_available=%s\n' "$value"
        return 0
        ;;
    esac
  done </proc/meminfo
}

# rr_gpu_history WORKDIR JOB LINES: the newest lines of what a job's watcher wrote of its GPUs.
rr_gpu_history() { tail -n "$3" "$(rr_home "$1")/jobs/$2/gpu.csv" 2>/dev/null; }
