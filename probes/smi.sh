# Runs nvidia-smi for the probe in sh, one process for all frames.

# Sets `stuck` to an nvidia-smi that does not come back: one in an uninterruptible wait, or one of ours whose parent is
# gone. The arguments of the former are not looked at, because that can block.
find_stuck() {
  stuck=
  for entry in /proc/[0-9]*; do
    read -r name <"$entry/comm" && [ "$name" = nvidia-smi ] || continue
    read -r line <"$entry/stat" || continue
    set -- ${line##*) }
    if [ "$1" != D ]; then
      [ "$1" != Z ] && [ "$1" != X ] && [ -O "$entry/stat" ] || continue
      read -r parent <"/proc/$2/comm" || parent=
      case $parent in *sh | busybox | stethoscope*) continue ;; esac
      grep -q -e "--query-gpu=index," "$entry/cmdline" || continue
    fi
    stuck=${entry#/proc/}
    return
  done
}

smi() {
  command -v nvidia-smi >/dev/null || { echo "@smi absent"; exit 0; }
  gpu=
  while :; do
    trap 'kill $gpu; exit 0' HUP INT TERM
    find_stuck
    last=$stuck
    if [ -n "$stuck" ]; then
      # A short wait in the driver, or one that is on its way out, is no hang.
      sleep 2 &
      gpu=$!
      wait $gpu
      find_stuck
    fi
    if [ -n "$stuck" ] && [ "$stuck" = "$last" ]; then
      echo "@smi stuck $stuck" || exit 0
    else
      echo "@smi start" || exit 0
      # One unknown name makes it refuse the whole question, so it is asked for its names first.
      trap - HUP INT TERM
      known=$(nvidia-smi --help-query-gpu)
      [ -n "$known" ] || known='"name""uuid""pci.bus_id""clocks.sm""utilization.gpu""utilization.memory""power.draw"
        "temperature.gpu""memory.used""memory.total"'
      fields=index
      for field in name uuid pci.bus_id clocks.sm utilization.gpu utilization.memory power.draw \
        enforced.power.limit temperature.gpu temperature.gpu.tlimit temperature.memory memory.used memory.total \
        clocks_event_reasons.active clocks_throttle_reasons.active; do
        case $fields in *clocks_event*) [ $field = clocks_throttle_reasons.active ] && continue ;; esac
        case $known in *"\"$field\""*) fields=$fields,$field ;; esac
      done
      known=
      echo "@smi fields $fields" || exit 0
      trap 'kill $gpu; exit 0' HUP INT TERM
      nvidia-smi "--query-gpu=$fields" --format=csv,noheader,nounits -lms "$tick_ms" 2>&1 &
      gpu=$!
      wait $gpu
      echo "@smi ended $?" || exit 0
    fi
    sleep 30 &
    gpu=$!
    wait $gpu
  done
}
