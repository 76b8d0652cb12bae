"""What the NVML child reads rarely: errors, links, processes, modes and versions.

The driver is called by function name and struct layout, as `nvml.h` has them; a function that an older driver does not
have is unsupported like any other value.
"""

import ctypes
import time

from nvml_child import scaled

FIELDS = {
    "gpu_ecc_mode": 1,
    "gpu_retired_pages_sbe": 29,
    "gpu_retired_pages_dbe": 30,
    "gpu_retired_pages_pending": 31,
    "gpu_throttle_time_sw_power_cap": 74,
    "speed": 90,
    "gpu_pcie_replay": 94,
    "gpu_remapped_rows_corr": 142,
    "gpu_remapped_rows_uncorr": 143,
    "gpu_row_remap_pending": 144,
    "gpu_row_remap_failure": 145,
    "gpu_temp_slowdown": 194,
    "gpu_recovery_action": 230,
}
"""Values that have a field id, the same in every driver. 194 is the margin at which a board slows down: one that has it
has no temperature for that. What has no underscore in its name is for use here."""
THROTTLES = ("gpu_throttle_time_sw_thermal", "gpu_throttle_time_hw_thermal", "gpu_throttle_time_hw_power_brake")
"""Times with three field ids in a row, which moved."""
CALLS = {
    "gpu_pstate": ("PerformanceState",),
    "gpu_mem_clock": ("ClockInfo", 2),
    "gpu_persistence_mode": ("PersistenceMode",),
    "gpu_pcie_link_gen": ("CurrPcieLinkGeneration",),
    "gpu_pcie_link_width": ("CurrPcieLinkWidth",),
}
FIXED = {
    "gpu_pcie_link_gen_max": ("MaxPcieLinkGeneration",),
    "gpu_pcie_link_width_max": ("MaxPcieLinkWidth",),
    "gpu_power_limit_default": ("PowerManagementDefaultLimit",),
    "gpu_sm_clock_max": ("MaxClockInfo", 1),
    "gpu_temp_slowdown": ("TemperatureThreshold", 1),
    "generation": ("Architecture",),
}
"""Values that have a function, with what it is asked; those that do not change are asked once."""
ECC = {
    "gpu_ecc_%s_%s_%s" % (kind, span, place): (kinds, spans, places)
    for kinds, kind in enumerate(("corr", "uncorr"))
    for spans, span in enumerate(("volatile", "aggregate"))
    for places, place in ((2, "dram"), (7, "sram"))
}
METRICS = (
    *FIELDS,
    *THROTTLES,
    *CALLS,
    *FIXED,
    *ECC,
    "gpu_sram_threshold_exceeded",
    "gpu_row_remap_banks_none",
    "gpu_mig_mode",
    "fabric_state",
    "fabric_status",
    "fabric_health_mask",
    "gpu_process_count",
    "nvlink_active_count",
)
LINKS = {
    "nvlink_state": 165,
    "nvlink_speed": 164,
    "nvlink_replay_errors": 161,
    "nvlink_recovery_errors": 162,
    "nvlink_crc_errors": 163,
    "nvlink_effective_errors": 219,
    "nvlink_symbol_errors": 221,
}
"""Field ids of a link, whose number is the scope; the third to the fifth are in the order of the counters that an older
driver has a function for."""
MOST_LINKS = 36
BLACKWELL = 10
MOST_PROCESSES = 1024

# In native alignment, with the padding that a C compiler leaves.
SRAM = "I11QI0Q"  # nvmlEccSramErrorStatus_v1_t: version, aggregate parity, SEC-DED, corrected, volatile .., exceeded
HISTOGRAM = "5I"  # nvmlRowRemapperHistogramValues_t: banks by spare rows: max, high, partial, low, none
OLD_FABRIC = "16xiIB0I"  # nvmlGpuFabricInfo_t: cluster, status, clique, state
FABRIC = "I16xiIBI"  # nvmlGpuFabricInfo_v2_t: version, cluster, status, clique, state, health mask
PROCESS = "IQII"  # nvmlProcessInfo_t of _v2 and _v3: pid, bytes, GPU instance, compute instance


class Rare:
    """The rarely read values of all GPUs of a driver (`nvml_child.Driver`)."""

    def __init__(self, driver):
        self.driver = driver
        self.fixed = {}
        self.links = {}
        self.words = {}
        self.throttles = {}

    def learn(self):
        """Learn what is fixed about the driver."""
        version = self.driver.text("SystemGetDriverVersion")
        cuda = self.driver.call("SystemGetCudaDriverVersion_v2", "i")
        if version:
            self.words["driver_version"] = version
        if not isinstance(cuda, str):
            self.words["cuda_version"] = "%d.%d" % (cuda[0] // 1000, cuda[0] % 1000 // 10)
        release = [int(number) for number in version.split(".")[:2] if number.isdigit()]
        # The ids came with 575 where others had been, and moved out of their way between 580.65 and 580.82.
        first = 269 if release >= [580, 82] else 251 if [575] <= release <= [580, 65] else 0
        if first:
            self.throttles = {metric: first + offset for offset, metric in enumerate(THROTTLES)}

    def read(self):
        """Yield None before each GPU, so that something else can be done, and then the values of all."""
        driver = self.driver
        part = {"mono": round(time.monotonic(), 3), "wall": round(time.time(), 3), "apps": []}
        if not self.words:
            self.learn()
        gpus, links, vbios = [], [], []
        for index in range(len(driver.identities)):
            yield None
            word, apps = driver.handles[index], []
            if not isinstance(word, str):
                values, of_links = self.ask(index, word, apps)
                if "lost" in values.values() or any("lost" in column for column in of_links.values()):
                    word = "lost"
            if isinstance(word, str):
                count = (self.links.pop(index, None) or [-1])[-1] + 1
                self.fixed.pop(index, None)
                values, of_links, apps = dict.fromkeys(METRICS, word), dict.fromkeys(LINKS, [word] * count), []
            gpus.append(values)
            links.append(of_links)
            vbios.append(self.fixed.get(index, {}).get("vbios", ""))
            part["apps"] += apps
        part["words"] = dict(self.words, gpu_vbios_version=vbios)
        part["gpu"] = {metric: [values[metric] for values in gpus] for metric in METRICS if "_" in metric}
        part["links"] = {metric: [of_links[metric] for of_links in links] for metric in LINKS}
        yield part

    def ask(self, index, handle, apps):
        """Return the values of one GPU and those of its links; its processes are added to `apps`."""
        fields = dict(FIELDS, **self.throttles)
        values = dict.fromkeys(METRICS, "unsupported")
        values.update(zip(fields, self.driver.fields(handle, list(fields.values()))))
        margin = values["gpu_temp_slowdown"]
        for metric in values:
            if metric.startswith("gpu_throttle"):
                # The driver counts nanoseconds.
                values[metric] = scaled(values[metric], 1000)
            elif metric.startswith("gpu_retired") and not isinstance(values["gpu_remapped_rows_uncorr"], str):
                # A board that remaps rows retires no pages.
                values[metric] = "unsupported"
        fixed = self.fixed.setdefault(index, {})
        for metric, question in FIXED.items():
            if fixed.get(metric, "error") == "error":
                fixed[metric] = self.driver.number(question[0], handle, *question[1:])
        fixed["vbios"] = fixed.get("vbios") or self.driver.text("DeviceGetVbiosVersion", handle)
        values.update((metric, fixed[metric]) for metric in FIXED)
        for metric, question in CALLS.items():
            values[metric] = self.driver.number(question[0], handle, *question[1:])
        if values["gpu_pstate"] == 32:  # NVML_PSTATE_UNKNOWN
            values["gpu_pstate"] = "unsupported"
        values["gpu_power_limit_default"] = scaled(values["gpu_power_limit_default"], 1000, 1)
        if not isinstance(margin, str):
            values["gpu_temp_slowdown"] = "unsupported"
        self.ask_memory(handle, values)
        self.ask_fabric(handle, values)
        values["gpu_mig_mode"] = self.driver.number("MigMode", handle, after=(ctypes.byref(ctypes.c_uint()),))
        values["gpu_process_count"] = self.ask_processes(index, handle, values["gpu_mig_mode"] == 1, apps)
        return values, self.ask_links(index, handle, values)

    def ask_memory(self, handle, values):
        """Fill in errors of the memories and their repair."""
        histogram = self.driver.call("DeviceGetRowRemapperHistogram", HISTOGRAM, (handle,))
        values["gpu_row_remap_banks_none"] = histogram if isinstance(histogram, str) else histogram[4]
        if values["gpu_ecc_mode"] == 0:
            return
        sram = self.driver.call("DeviceGetSramEccErrorStatus", SRAM, (handle,), version=1)
        values["gpu_sram_threshold_exceeded"] = sram if isinstance(sram, str) else sram[12]
        for metric, (kind, span, place) in ECC.items():
            if place == 2 or isinstance(sram, str):
                values[metric] = self.driver.number("MemoryErrorCounter", handle, kind, span, place, layout="Q")
            else:
                parity, double, corrected = sram[1:4] if span else sram[4:7]
                values[metric] = parity + double if kind else corrected

    def ask_fabric(self, handle, values):
        """Fill in how the GPU stands with the fabric manager; health fields are there from the second version on."""
        fabric = self.driver.call("DeviceGetGpuFabricInfoV", FABRIC, (handle,), version=2)
        if fabric == "unsupported":
            fabric = self.driver.call("DeviceGetGpuFabricInfo", OLD_FABRIC, (handle,))
            if not isinstance(fabric, str):
                fabric = (0, *fabric, 0)
        state, status, mask = (fabric,) * 3 if isinstance(fabric, str) else (fabric[3], fabric[1], fabric[4])
        if state:
            values["fabric_state"] = state
            # The status says something once registration is complete; every 0 in the mask stands for "not known".
            values["fabric_status"] = status if isinstance(state, str) or state == 3 else "waiting"
            values["fabric_health_mask"] = mask or "unsupported"

    def ask_processes(self, index, handle, instances, apps):
        """Add the processes of one GPU to `apps` and return how many there are, or the word for why nobody knows."""
        handles, found, word = [handle], {}, ""
        if instances:
            # Asked itself, a GPU that is divided tells root alone.
            answers = [
                self.driver.call("DeviceGetMigDeviceHandleByIndex", "P", (handle, number)) for number in range(7)
            ]
            handles = [ctypes.c_void_p(*answer) for answer in answers if not isinstance(answer, str)]
            word = "".join({answer for answer in answers if isinstance(answer, str)} - {"absent"})
        for each in handles:
            for kind in ("Compute", "Graphics"):
                listed = self.running(each, kind)
                if isinstance(listed, str):
                    word = word or (listed if kind == "Compute" or listed == "lost" else "")
                    continue
                for pid, used in listed:
                    known = found.setdefault(pid, {"C": [], "G": []})
                    known[kind[0]].append(used)
        for pid, kinds in found.items():
            used = max(sum(size for size in sizes if size < 2**64 - 1) for sizes in kinds.values())
            apps.append([index, pid, scaled(used, 1048576) or None, "+".join(kind for kind in "CG" if kinds[kind])])
        return word or len(found)

    def running(self, handle, kind):
        """Return process ids and bytes of memory, or the word for why there are none. An entry is the same in both
        versions of the function."""
        for version in "32":
            count = ctypes.c_uint(MOST_PROCESSES)
            name = "DeviceGet%sRunningProcesses_v%s" % (kind, version)
            listed = self.driver.call(name, PROCESS * MOST_PROCESSES, (handle, ctypes.byref(count)))
            if listed != "unsupported":
                break
        end = 4 * count.value
        return listed if isinstance(listed, str) else list(zip(listed[:end:4], listed[1:end:4]))

    def ask_links(self, index, handle, values):
        """Return the values of the NVLinks, in lists by number, and fill in how many are up. A link whose state is
        not supported is none; the place of one below the last says "absent"."""
        numbers = self.links.get(index, range(MOST_LINKS))
        width, generation = len(LINKS), values["generation"]
        answers = self.driver.fields(handle, [(field, number) for number in numbers for field in LINKS.values()])
        rows, older = {}, set(answers[::width]) == {"unsupported"}
        for place, number in enumerate(numbers):
            row = answers[place * width : place * width + width]
            if row[0] == "unsupported" and older:
                row[0] = self.driver.number("NvLinkState", handle, number)
                older = row[0] != "unsupported"
                if older:
                    row[1] = values["speed"]
                    row[2:5] = [
                        self.driver.number("NvLinkErrorCounter", handle, number, counter, layout="Q")
                        for counter in range(3)
                    ]
            if row[0] != "unsupported":
                rows[number] = row
                if not isinstance(row[0], str):
                    # Asleep is up; without traffic is not.
                    row[0] = int(row[0] in (1, 2))
                row[1] = scaled(row[1], 1000, 3) if row[0] else "unsupported"
                if not isinstance(generation, str) and generation >= BLACKWELL:
                    # These stay 0 there whatever happens.
                    row[2:5] = ["unsupported"] * 3
        states = [row[0] for row in rows.values()]
        words = [state for state in states if isinstance(state, str)]
        if states:
            values["nvlink_active_count"] = words[0] if words else sum(states)
        if index not in self.links:
            if len(words) == len(states):
                # Which links there are is not known, or there are none.
                return {metric: [] for metric in LINKS}
            self.links[index] = list(rows)
        table = [rows.get(number, ["absent"] * width) for number in range(self.links[index][-1] + 1)]
        return dict(zip(LINKS, map(list, zip(*table))))
