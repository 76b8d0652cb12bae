"""The fields of `nvidia-smi -q` and `-q -x` that have a name here: both forms and every driver's spelling.

A path is the labels from the outside in, as values.name_of writes them; the XML has other words for some. From driver
535 throttle reasons are called event reasons, from 545 uncorrectable SRAM errors are printed in two parts, and since
Hopper temperatures are margins: those are fields of their own, never degrees.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One value: the first of `paths` that has a number is it; with `parts` the sum of those that are there."""

    name: str
    unit: str
    paths: tuple[str, ...]
    kind: str = "number"
    """number, switch (1 or 0), or word."""
    parts: bool = False


def _ecc(kind: str) -> tuple[Field, ...]:
    base = f"ecc_errors/{kind}"
    cells = ("l1_cache", "l2_cache", "register_file", "texture_memory", "texture_shm", "shared_memory", "cbu")
    return (
        Field(f"gpu_ecc_corr_{kind}_dram", "errors", (f"{base}/dram_correctable", f"{base}/single_bit/device_memory")),
        Field(f"gpu_ecc_uncorr_{kind}_dram", "errors",
              (f"{base}/dram_uncorrectable", f"{base}/double_bit/device_memory")),
        Field(f"gpu_ecc_corr_{kind}_sram", "errors",
              (f"{base}/sram_correctable", *(f"{base}/single_bit/{cell}" for cell in cells)), parts=True),
        Field(f"gpu_ecc_uncorr_{kind}_sram", "errors",
              (f"{base}/sram_uncorrectable", f"{base}/sram_uncorrectable_parity",
               f"{base}/sram_uncorrectable_secded", f"{base}/sram_uncorrectable_sec_ded",
               *(f"{base}/double_bit/{cell}" for cell in cells)), parts=True),
    )  # fmt: skip


_PCI = "pci/pci_gpu_link_info"
_PCI_TEXT = "pci/gpu_link_info"
_COUNTERS = "clocks_event_reasons_counters"
_LIMIT = ("gpu_power_readings", "power_readings")
_CEILING = "gpu_power_readings/gpu_ceiling_power_limit"
"""From driver 610 the limits stand under a heading of their own."""

FIELDS: tuple[Field, ...] = (
    Field("name", "", ("product_name",), "word"),
    Field("architecture", "", ("product_architecture",), "word"),
    Field("uuid", "", ("uuid", "gpu_uuid"), "word"),
    Field("serial", "", ("serial", "serial_number"), "word"),
    Field("gpu_vbios_version", "", ("vbios_version",), "word"),
    Field("gsp_firmware", "", ("gsp_firmware_version",), "word"),
    Field("inforom_image", "", ("inforom_version/img_version", "inforom_version/image_version"), "word"),
    Field("gpu_pstate", "", ("performance_state",), "word"),
    Field("gpu_persistence_mode", "", ("persistence_mode",), "switch"),
    Field("gpu_mig_mode", "", ("mig_mode/current_mig", "mig_mode/current"), "switch"),
    Field("gpu_ecc_mode", "", ("ecc_mode/current_ecc", "ecc_mode/current"), "switch"),
    Field("gpu_mig_mode_pending", "", ("mig_mode/pending_mig", "mig_mode/pending"), "switch"),
    Field("gpu_ecc_mode_pending", "", ("ecc_mode/pending_ecc", "ecc_mode/pending"), "switch"),
    Field("compute_mode", "", ("compute_mode",), "word"),
    Field("driver_model", "", ("driver_model/current_dm", "driver_model/current"), "word"),
    Field("virtualization_mode", "",
          ("gpu_virtualization_mode/virtualization_mode", "gpu_virtualization_mode/virtualization"), "word"),
    Field("minor_number", "", ("minor_number",), "word"),
    Field("board_part_number", "", ("board_part_number",), "word"),
    Field("gpu_part_number", "", ("gpu_part_number",), "word"),
    Field("fru_part_number", "", ("gpu_fru_part_number", "fru_part_number"), "word"),
    Field("pci_device_id", "", ("pci/pci_device_id", "pci/device_id"), "word"),
    Field("gpu_recovery_action", "", ("gpu_recovery_action",), "word"),
    Field("reset_required", "", ("gpu_reset_status/reset_required",), "switch"),
    Field("drain_and_reset_recommended", "", ("gpu_reset_status/drain_and_reset_recommended",), "switch"),
    Field("gpu_pcie_link_gen", "", (f"{_PCI}/pcie_gen/current_link_gen", f"{_PCI_TEXT}/pcie_generation/current")),
    Field("gpu_pcie_link_gen_max", "", (f"{_PCI}/pcie_gen/max_link_gen", f"{_PCI_TEXT}/pcie_generation/max")),
    Field("gpu_pcie_link_gen_device_max", "",
          (f"{_PCI}/pcie_gen/max_device_link_gen", f"{_PCI_TEXT}/pcie_generation/device_max")),
    Field("gpu_pcie_link_gen_host_max", "",
          (f"{_PCI}/pcie_gen/max_host_link_gen", f"{_PCI_TEXT}/pcie_generation/host_max")),
    Field("gpu_pcie_link_width", "lanes",
          (f"{_PCI}/link_widths/current_link_width", f"{_PCI_TEXT}/link_width/current")),
    Field("gpu_pcie_link_width_max", "lanes", (f"{_PCI}/link_widths/max_link_width", f"{_PCI_TEXT}/link_width/max")),
    Field("gpu_pcie_replay", "replays", ("pci/replay_counter", "pci/replays_since_reset")),
    Field("gpu_pcie_replay_rollover", "", ("pci/replay_rollover_counter", "pci/replay_number_rollovers")),
    Field("gpu_pcie_tx", "KB/s", ("pci/tx_util", "pci/tx_throughput")),
    Field("gpu_pcie_rx", "KB/s", ("pci/rx_util", "pci/rx_throughput")),
    Field("fan_speed", "%", ("fan_speed",)),
    *(Field(f"gpu_throttle_time_{name}", "us", tuple(f"{_COUNTERS}/{label}" for label in labels))
      for name, labels in (
          ("sw_power_cap", (f"{_COUNTERS}_sw_power_cap", "sw_power_capping")),
          ("sw_thermal", (f"{_COUNTERS}_sw_therm_slowdown", "sw_thermal_slowdown")),
          ("hw_thermal", (f"{_COUNTERS}_hw_therm_slowdown", "hw_thermal_slowdown")),
          ("hw_power_brake", (f"{_COUNTERS}_hw_power_brake", "hw_power_braking")),
          ("sync_boost", (f"{_COUNTERS}_sync_boost", "sync_boost")))),
    Field("gpu_fb_total", "MiB", ("fb_memory_usage/total",)),
    Field("gpu_fb_used", "MiB", ("fb_memory_usage/used",)),
    Field("gpu_fb_free", "MiB", ("fb_memory_usage/free",)),
    Field("gpu_fb_reserved", "MiB", ("fb_memory_usage/reserved",)),
    Field("gpu_bar1_total", "MiB", ("bar1_memory_usage/total",)),
    Field("gpu_bar1_used", "MiB", ("bar1_memory_usage/used",)),
    Field("gpu_util", "%", ("utilization/gpu_util", "utilization/gpu")),
    Field("gpu_mem_copy_util", "%", ("utilization/memory_util", "utilization/memory")),
    *_ecc("volatile"),
    *_ecc("aggregate"),
    Field("gpu_sram_threshold_exceeded", "",
          ("ecc_errors/aggregate/sram_threshold_exceeded",), "switch"),
    *(Field(f"gpu_sram_uncorr_{name}", "errors", (f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{name}",))
      for name in ("l2", "sm", "microcontroller", "pcie", "other")),
    Field("gpu_channel_repair_pending", "", ("ecc_errors/channel_repair_pending",), "switch"),
    Field("gpu_tpc_repair_pending", "", ("ecc_errors/tpc_repair_pending",), "switch"),
    Field("gpu_unrepairable_memory", "", ("ecc_errors/unrepairable_memory",), "switch"),
    Field("gpu_retired_pages_sbe", "pages",
          ("retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages/single_bit_ecc")),
    Field("gpu_retired_pages_dbe", "pages",
          ("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc")),
    Field("gpu_retired_pages_pending", "",
          ("retired_pages/pending_blacklist", "retired_pages/pending_retirement",
           "retired_pages/pending_page_blacklist"), "switch"),
    Field("gpu_remapped_rows_corr", "rows", ("remapped_rows/remapped_row_corr", "remapped_rows/correctable_error")),
    Field("gpu_remapped_rows_uncorr", "rows", ("remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error")),
    Field("gpu_remapped_rows_corr_inactive", "rows",
          ("remapped_rows/remapped_row_corr_inactive", "remapped_rows/inactive_correctable_error")),
    Field("gpu_remapped_rows_uncorr_inactive", "rows",
          ("remapped_rows/remapped_row_unc_inactive", "remapped_rows/inactive_uncorrectable_error")),
    Field("gpu_row_remap_pending", "", ("remapped_rows/remapped_row_pending", "remapped_rows/pending"), "switch"),
    Field("gpu_row_remap_failure", "",
          ("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred"), "switch"),
    *(Field(f"gpu_row_remap_banks_{level}", "banks",
            (f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{level}",
             f"remapped_rows/bank_remap_availability_histogram/{level}"))
      for level in ("max", "high", "partial", "low", "none")),
    Field("gpu_temp", "C", ("temperature/gpu_temp", "temperature/gpu_current_temp")),
    Field("gpu_temp_margin", "C",
          ("temperature/gpu_temp_tlimit", "temperature/gpu_t_limit_temp", "temperature/gpu_current_t_limit_temp")),
    Field("gpu_temp_shutdown", "C", ("temperature/gpu_temp_max_threshold", "temperature/gpu_shutdown_temp")),
    Field("gpu_temp_slowdown", "C", ("temperature/gpu_temp_slow_threshold", "temperature/gpu_slowdown_temp")),
    Field("gpu_temp_max_operating", "C",
          ("temperature/gpu_temp_max_gpu_threshold", "temperature/gpu_max_operating_temp")),
    Field("gpu_margin_shutdown", "C",
          ("temperature/gpu_temp_max_tlimit_threshold", "temperature/gpu_shutdown_t_limit_temp")),
    Field("gpu_margin_slowdown", "C",
          ("temperature/gpu_temp_slow_tlimit_threshold", "temperature/gpu_slowdown_t_limit_temp")),
    Field("gpu_margin_max_operating", "C",
          ("temperature/gpu_temp_max_gpu_tlimit_threshold", "temperature/gpu_max_operating_t_limit_temp")),
    Field("gpu_mem_temp", "C", ("temperature/memory_temp", "temperature/memory_current_temp")),
    Field("gpu_mem_temp_max", "C", ("temperature/gpu_temp_max_mem_threshold", "temperature/memory_max_operating_temp")),
    Field("gpu_mem_margin_max", "C",
          ("temperature/gpu_temp_max_mem_tlimit_threshold", "temperature/memory_max_operating_t_limit_temp")),
    Field("gpu_power_draw", "W",
          tuple(f"{base}/{leaf}" for base in _LIMIT
                for leaf in ("average_power_draw", "power_draw", "instant_power_draw", "instantaneous_power_draw"))),
    Field("gpu_power_draw_instant", "W",
          tuple(f"{base}/{leaf}" for base in _LIMIT for leaf in ("instant_power_draw", "instantaneous_power_draw"))),
    Field("gpu_power_limit", "W",
          (*(f"{base}/{leaf}" for base in _LIMIT
             for leaf in ("enforced_power_limit", "current_power_limit", "power_limit")),
           f"{_CEILING}/current_power_limit")),
    Field("gpu_power_limit_default", "W",
          (*(f"{base}/default_power_limit" for base in _LIMIT), f"{_CEILING}/default_power_limit")),
    Field("gpu_power_limit_requested", "W",
          (*(f"{base}/{leaf}" for base in _LIMIT for leaf in ("requested_power_limit", "power_limit")),
           f"{_CEILING}/requested_power_limit")),
    Field("gpu_power_limit_min", "W", tuple(f"{base}/min_power_limit" for base in _LIMIT)),
    Field("gpu_power_limit_max", "W", tuple(f"{base}/max_power_limit" for base in _LIMIT)),
    Field("gpu_module_power_draw", "W",
          tuple(f"module_power_readings/{leaf}" for leaf in
                ("average_power_draw", "power_draw", "instant_power_draw", "instantaneous_power_draw"))),
    *(Field(f"gpu_module_power_limit{name}", "W",
            tuple(f"module_power_readings/{label}_power_limit" for label in labels))
      for name, labels in (("", ("current", "enforced")), ("_default", ("default",)), ("_max", ("max",)))),
    Field("gpu_mem_power_draw", "W",
          tuple(f"gpu_memory_power_readings/{leaf}" for leaf in
                ("average_power_draw", "power_draw", "instant_power_draw", "instantaneous_power_draw"))),
    Field("gpu_voltage", "mV", ("voltage/graphics_volt", "voltage/graphics")),
    Field("gpu_temp_target", "C", ("temperature/gpu_target_temperature",)),
    Field("gpu_sm_clock", "MHz", ("clocks/sm_clock", "clocks/sm")),
    Field("gpu_graphics_clock", "MHz", ("clocks/graphics_clock", "clocks/graphics")),
    Field("gpu_mem_clock", "MHz", ("clocks/mem_clock", "clocks/memory")),
    Field("gpu_app_clock", "MHz", ("applications_clocks/graphics_clock", "applications_clocks/graphics")),
    Field("gpu_app_mem_clock", "MHz", ("applications_clocks/mem_clock", "applications_clocks/memory")),
    Field("gpu_sm_clock_max", "MHz", ("max_clocks/sm_clock", "max_clocks/sm")),
    Field("gpu_mem_clock_max", "MHz", ("max_clocks/mem_clock", "max_clocks/memory")),
    Field("fabric_state", "", ("fabric/state",), "word"),
    Field("fabric_status", "", ("fabric/status",), "word"),
    Field("fabric_clique", "", ("fabric/cliqueid",), "word"),
    Field("fabric_cluster", "", ("fabric/clusteruuid",), "word"),
    *(Field(f"fabric_health_{name}", "", (f"fabric/health/{name}",), "word")
      for name in ("summary", "bandwidth", "route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery",
                   "incorrect_configuration", "partition_assigned")),
    *(Field(name, "", tuple(f"{base}/{name}" for base in ("platforminfo", "platform_info")), "word")
      for name in ("chassis_serial_number", "slot_number", "tray_index", "host_id", "peer_type", "gpu_fabric_guid")),
    Field("c2c_mode", "", ("c2c_mode", "gpu_c2c_mode"), "switch"),
    Field("module_id", "", ("gpu_module_id", "module_id", "platforminfo/module_id", "platform_info/module_id"), "word"),
)  # fmt: skip

REASON_BITS: dict[str, int] = {
    "gpu_idle": 0x1,
    "idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
    "display_clocks_setting": 0x100,
}
"""Bits of nvmlClocksEventReasons by the label of each."""

SILENT = (
    "display", "driver_model", "accounting", "minor_number", "multigpu_board", "board_id", "board_part_number",
    "gpu_part_number", "gpu_fru_part_number", "fru_part_number", "product_brand", "gpu_operation_mode",
    "gpu_virtualization_mode", "ibmnpu", "bar1_memory_usage", "cc_protected_memory_usage", "encoder_stats", "fbc_stats",
    "conf_compute_protected_memory_usage", "supported", "sparse_operation_mode", "dram_encryption_mode", "pdi",
    "gpu_pdi", "inforom", "clock_policy", "deferred_clocks", "default_applications_clocks", "power_smoothing",
    "max_customer_boost_clocks", "power_profiles", "workload_power_profiles", "edpp_multiplier", "capabilities",
    "addressing_mode", "platforminfo", "platform_info", "voltage", "utilization/", "pci/", "mig_devices",
    "gpu_memory_power_readings", "gpu_power_readings/gpu_base_power",
    "gpu_reset_status", "compute_mode", "clocks/", "max_clocks/", "applications_clocks/",
    "ecc_mode/pending", "mig_mode/pending", "fb_memory_usage/reserved", "temperature/gpu_target", "retired_pages/",
    "gpu_power_readings/power_state", "module_power_readings/", "power_readings/", "ecc_errors/volatile/",
    "ecc_errors/aggregate/", "accounted_processes", "remapped_rows/remapped_row_", "gpu_c2c_mode",
)  # fmt: skip
"""Beginnings of paths that are known and say nothing about the health of a GPU: neither read nor unknown."""
