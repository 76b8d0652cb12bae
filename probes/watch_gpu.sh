# What nvidia-smi says rarely of GPUs, for the probe in sh; uses watch.sh.

# Sets `gpu_fields` to those of $1 that nvidia-smi knows.
learn_gpu() {
  last= name=
  known=$(exec 5>&- 6>&-; run help 20 nvidia-smi exec nvidia-smi --help-query-gpu)
  case $known in *'"uuid"'*) ;; *) return ;; esac
  gpu_fields=index,uuid
  for field in $1; do
    case $known in *"\"$field\""*) gpu_fields=$gpu_fields,$field ;; esac
  done
}

# Prints what nvidia-smi says of GPUs rarely, and of the processes on them; nothing when the driver does not answer the
# one that runs all the time.
gpus() {
  rows=$(run gpu 20 nvidia-smi exec nvidia-smi "--query-gpu=$gpu_fields" --format=csv,noheader,nounits)
  case $last in
  *"@known "*) seen=${last#*"@known "} seen=${seen%%"$end_of_line"*} ;;
  *)
    seen=
    IFS=$end_of_line
    for line in $rows; do
      line=${line#*:}
      case $line in [0-9]*,*) seen="$seen ${line%%,*}" ;; esac
    done
    unset IFS
    seen=${seen# }
    ;;
  esac
  printf '@fields %s\n@known %s\n%s\n' "$gpu_fields" "$seen" "$rows"
  case $rows in *"$end_of_line"1:[0-9]*) ;; *) return ;; esac
  apps=$(run apps 20 nvidia-smi exec nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory \
    --format=csv,noheader,nounits)
  printf '%s\n' "$apps"
  set --
  IFS=$end_of_line
  set -f
  for line in $apps; do
    line=${line#*, }
    line=${line%%,*}
    case $line in '' | *[!0-9]* | ??????????*) continue ;; esac
    [ $# -lt 500 ] && [ -d "proc/$line" ] && set -- "$@" "proc/$line"
  done
  unset IFS
  set +f
  [ $# -gt 0 ] || return
  wanted=$(for place; do echo "$place/comm $place/cgroup"; done)
  plain $wanted
  wanted=$(for place; do echo "$place/stat"; done)
  # What changes all the time stands behind it.
  grep -o -E -e '^[0-9]+ \(.*\) [A-Za-z] [0-9]+' -- $wanted /dev/null
  people "$@"
}
