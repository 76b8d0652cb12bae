"""What the twin knows of every GPU, port and node, in the ids and units of the metric catalogue, rounded as the probe
rounds it."""

from __future__ import annotations

GPU: dict[str, int] = {
    "gpu_sm_clock": 0,
    "gpu_util": 0,
    "gpu_power_draw": 1,
    "gpu_temp": 0,
    "gpu_temp_margin": 0,
    "gpu_mem_temp": 0,
    "gpu_clocks_event_reasons": 0,
    "gpu_fb_used": 0,
    "gpu_fb_total": 0,
    "gpu_mem_copy_util": 0,
    "gpu_power_limit": 1,
    "gpu_pcie_rx": 0,
    "gpu_pcie_tx": 0,
    "gpu_handle_error": 0,
}
"""Metric -> digits behind the point; power in tenths of a watt, everything else whole."""

NODE: dict[str, int] = {
    "cpu_util": 1,
    "cpu_iowait": 1,
    "cpu_softirq": 1,
    "cpu_softirq_max": 1,
    "cpu_steal": 1,
    "load1": 2,
    "cpu_count": 0,
    "procs_blocked": 0,
    "psi_cpu_some": 2,
    "psi_io_some": 2,
    "psi_io_full": 2,
    "psi_memory_full": 2,
    "mem_available": 0,
    "mem_total": 0,
    "mem_dirty_writeback": 0,
    "gpu_count": 0,
    "gpu_count_pci": 0,
    "nvml_latency": 1,
}

PORT: dict[str, int] = {"ib_port_state": 0, "ib_port_phys_state": 0, "ib_port_rate": 0}

GPU_COUNTERS: dict[str, int] = {"nvlink_rx": 2**63 - 1, "nvlink_tx": 2**63 - 1}
"""Counter -> total at which it stands still."""

_PINS = 2**32 - 1
PORT_COUNTERS: dict[str, int] = {
    "ib_port_xmit_data": 2**63 - 1,
    "ib_port_rcv_data": 2**63 - 1,
    "ib_symbol_error": _PINS,
    "ib_link_error_recovery": 255,
    "ib_link_downed": 255,
    "ib_port_rcv_errors": _PINS,
    "ib_port_rcv_remote_physical_errors": _PINS,
    "ib_local_link_integrity_errors": _PINS,
    "ib_excessive_buffer_overrun_errors": 15,
    "ib_port_xmit_discards": _PINS,
    "ib_port_xmit_wait": 2**63 - 1,
    "ib_vl15_dropped": _PINS,
    "ib_port_rcv_switch_relay_errors": _PINS,
    "ib_hw_out_of_buffer": _PINS,
    "ib_hw_out_of_sequence": _PINS,
    "ib_hw_packet_seq_err": _PINS,
    "ib_hw_local_ack_timeout_err": _PINS,
    "ib_hw_rnr_nak_retry_err": _PINS,
    "ib_hw_req_cqe_error": _PINS,
    "ib_hw_roce_slow_restart": _PINS,
    "ib_hw_implied_nak_seq_err": _PINS,
    "roce_np_cnp_sent": 2**63 - 1,
    "roce_rp_cnp_handled": 2**63 - 1,
}

SLOW_COUNTERS: dict[str, str] = {
    "gpu_throttle_time_sw_power_cap": "gpu",
    "gpu_throttle_time_sw_thermal": "gpu",
    "gpu_throttle_time_hw_thermal": "gpu",
    "gpu_throttle_time_hw_power_brake": "gpu",
    "disk_reads": "disk",
    "disk_writes": "disk",
    "disk_read_time": "disk",
    "disk_write_time": "disk",
    "disk_io_time": "disk",
    "loading_time": "node",
    **dict.fromkeys(
        (
            "nfs_reads",
            "nfs_writes",
            "nfs_read_time",
            "nfs_read_queue",
            "nfs_write_time",
            "nfs_write_queue",
            "nfs_again",
            "nfs_backlog",
        ),
        "node",
    ),
    "management_bytes": "node",
    "management_retrans": "node",
}
"""What no fast frame carries and rarely read values show: counter -> what has one. Throttle times in microseconds, disk
times in milliseconds, the milliseconds that a node's data loaders have worked at their healthy pace, and what training
traffic on the management network has sent and sent again there."""

LIMITS: dict[str, int] = {**GPU_COUNTERS, **PORT_COUNTERS, **dict.fromkeys(SLOW_COUNTERS, 2**63 - 1)}

PINNED = (255, 65535, 2**32 - 1)
"""Old totals at which the adapter of a port keeps a counter for ever, whatever its width elsewhere."""

RATE_SCALES: dict[str, float] = {
    "nvlink_rx": 1.024e-6,
    "nvlink_tx": 1.024e-6,
    "ib_port_xmit_data": 3.2e-8,
    "ib_port_rcv_data": 3.2e-8,
}
"""Counts per second times this is the rate in the catalogue's unit; 1 for the others."""

NOT_MODELLED = (
    "gpu_app_clock", "gpu_sm_active", "gpu_tensor_active", "gpu_ecc_corr_volatile_dram", "gpu_ecc_uncorr_volatile_dram",
    "gpu_remapped_rows_corr", "gpu_remapped_rows_uncorr", "gpu_row_remap_pending", "gpu_row_remap_failure",
    "gpu_pcie_link_gen", "gpu_pcie_link_width", "gpu_pcie_replay", "gpu_process_count", "gpu_xid_events",
    "nvlink_state", "nvlink_speed", "nvlink_crc_errors", "nvlink_replay_errors", "nvlink_recovery_errors",
    "nvlink_error_rate", "pcie_aer_correctable", "pcie_link_speed", "pcie_link_width", "ib_effective_ber",
    "ib_module_rx_power", "ib_module_temp", "ib_gid_present", "ib_active_mtu",
    "net_pfc_rx_pause_duration", "net_tcp_retrans", "net_mgmt_tx", "leaf_up", "leaf_xmit_wait", "leaf_queue_depth",
    "node_reachable", "node_data_age", "node_bmc_reachable", "slurm_node_state", "slurm_job_state", "cpu_freq",
    "cpu_governor", "clocksource", "clock_offset", "swap_used", "dstate_processes", "mce_events", "edac_ce",
    "bmc_inlet_temp", "bmc_fan_rpm", "bmc_psu_status", "driver_version", "fabricmanager_active", "disk_await",
    "disk_io_util", "fs_used", "fs_readonly", "nvme_percentage_used", "nvme_available_spare", "nvme_media_errors",
    "nvme_critical_warning", "smart_reallocated_sectors", "smart_wearout_indicator", "storage_read_latency",
    "storage_write_latency", "storage_rpc_backlog", "storage_throughput", "job_step_time", "job_throughput", "job_loss",
    "job_loss_variance", "job_grad_norm", "job_allreduce_p99", "job_busbw", "job_checkpoint_write_time", "rank_alive",
    "nvme_temperature", "oom_kills", "edac_ue", "pcie_aer_nonfatal", "pcie_aer_fatal", "nfs_retrans",
    "clock_synchronised", "rank_compute_time", "rank_comm_time",
    "rank_data_time", "rank_other_time", "rank_collective_count",
)  # fmt: skip
"""Metrics that a scenario may `set` although no column carries them; they are kept beside the columns."""

ETHERNET_ONLY = ("ib_gid_present", "ib_active_mtu")
"""Metrics that a scenario may `set` and that only a fabric of Ethernet shows."""

DISK_RATES = ("disk_await", "disk_io_util")
"""Metrics that a scenario may `set` and that are read as the growth of counters of a disk."""

METRICS = frozenset({*GPU, *NODE, *PORT, *GPU_COUNTERS, *PORT_COUNTERS, *NOT_MODELLED})
