#!/bin/sh
# A stand-in for nvidia-smi: answers from the folder beside it. It gives the recorded bytes where this very call was
# recorded, else takes the asked columns out of a recorded table, else refuses as a driver does that lacks a field.
LC_ALL=C
export LC_ALL
here='@HERE@'
all=$*
printf '%s\n' "$all" >>"$here/calls"
if [ -e "$here/hang" ]; then sleep "$(cat "$here/hang")"; fi
cd -P "$here/answers" || exit 99

status() {
  read -r code <"$1.rc" || code=0
  exit "$code"
}

give() {
  cat "$1.out"
  if [ -e "$1.err" ]; then cat "$1.err" >&2; fi
  status "$1"
}

if [ -e every.out ]; then give every; fi

for file in *.args; do
  read -r recorded <"$file"
  if [ "$recorded" = "$all" ]; then give "${file%.args}"; fi
done

query='' fields='' ids='' header=1
while [ $# -gt 0 ]; do
  case $1 in
    --query-gpu=* | --query-compute-apps=*) query=${1%%=*} fields=${1#*=} ;;
    --format=*noheader*) header=0 ;;
    --id=*) ids=${1#*=} ;;
    -i | --id)
      ids=$2
      shift
      ;;
  esac
  shift
done

bad=${fields%%,*}
if [ -n "$query" ]; then
  for file in *.args; do
    read -r recorded <"$file"
    case $recorded in
      "$query="*" --format=csv,noheader,nounits") ;;
      *) continue ;;
    esac
    recorded=${recorded#*=}
    # Exit 3: a field is not in this table; its name is what was printed.
    rows=$(awk -v have="${recorded%% *}" -v want="$fields" -v ids="$ids" -v header=$header \
      -v now="$(date '+%Y/%m/%d %H:%M:%S.000')" '
      function trimmed(text) { gsub(/^[ \t]+|[ \t\r]+$/, "", text); return text }
      BEGIN {
        count = split(have, name, ","); for (i = 1; i <= count; i++) column[name[i]] = i
        asked = split(want, wanted, ",")
        for (i = 1; i <= asked; i++) if (wanted[i] != "timestamp" && !(wanted[i] in column)) { print wanted[i]; failed = 3; exit }
        limits = split(ids, only, ",")
        if (header) { line = wanted[1]; for (i = 2; i <= asked; i++) line = line ", " wanted[i]; print line }
      }
      {
        rest = $0
        for (i = 1; i < count && (at = index(rest, ",")); i++) { cell[i] = trimmed(substr(rest, 1, at - 1)); rest = substr(rest, at + 1) }
        if (i < count) { print; next }   # a message between the rows
        cell[count] = trimmed(rest)
        keep = !limits
        for (i = 1; i <= limits; i++) for (key = 1; key <= count; key++)
          if ((name[key] == "index" || name[key] ~ /uuid$/ || name[key] == "pci.bus_id") && cell[key] == only[i]) keep = 1
        if (!keep) next
        for (i = 1; i <= asked; i++) printf "%s%s", (i > 1 ? ", " : ""), (wanted[i] == "timestamp" ? now : cell[column[wanted[i]]])
        print ""
      }
      END { exit failed }' "${file%.args}.out")
    if [ $? -ne 3 ]; then
      if [ -n "$rows" ]; then printf '%s\n' "$rows"; fi
      status "${file%.args}"
    fi
    bad=$rows
  done
  printf 'Field "%s" is not a valid field to query.\n\n' "$bad"
  exit 2
fi
echo "stand-in for nvidia-smi: no answer recorded for: $all" >&2
exit 99
