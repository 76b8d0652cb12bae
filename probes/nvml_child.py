"""What runs in the NVML child, the one process that talks to the driver."""

import ctypes
import json
import math
import os
import select
import signal
import struct
import sys
import time

ROOT = os.environ.get("STETHOSCOPE_ROOT", "")
PCIE_S = 10.0
"""Every GPU's PCIe traffic is sampled once in this time; one sample keeps the driver busy for 20 ms a direction."""

GPU_METRICS = (
    "gpu_sm_clock",
    "gpu_util",
    "gpu_power_draw",
    "gpu_temp",
    "gpu_temp_margin",
    "gpu_mem_temp",
    "gpu_clocks_event_reasons",
    "gpu_fb_used",
    "gpu_fb_total",
    "gpu_mem_copy_util",
    "gpu_power_limit",
    "gpu_pcie_rx",
    "gpu_pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "gpu_handle_error",
)

# In native alignment, with the padding that a C compiler leaves.
PCI = "16s5I32s"  # nvmlPciInfo_t: bus id of old, domain, bus, device, device id, subsystem id, bus id
MARGIN = "Ii"  # nvmlMarginTemperature_v1_t: version, margin
TEMPERATURE = "IIi"  # nvmlTemperature_v1_t: version, sensor, temperature
MEMORY = "I4Q"  # nvmlMemory_v2_t: version, total, reserved, free, used
OLD_MEMORY = "3Q"  # nvmlMemory_t: total, free, used
FIELD = "IIqqII8s"  # nvmlFieldValue_t: field, scope, time, latency, kind, code, value
KINDS = "dILQqiH"  # nvmlValueType_t, in its order


class Driver:
    """NVML, called by function name and struct layout. One GPU that fails costs only its own values."""

    CODES = {
        2: "unsupported",
        3: "unsupported",
        4: "permission",
        6: "absent",
        13: "unsupported",
        15: "lost",
        25: "unsupported",
    }
    """2 is what an older driver says about the number of a field, or of a link, that it does not know."""
    FOLDERS = (
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
        "/run/nvidia/driver/usr/lib64",
        "/home/kubernetes/bin/nvidia/lib64",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    )
    """Where the library is when the dynamic loader does not know: containers, driver operators, NixOS."""
    REFUSALS = {
        6: "no devices",
        9: "no driver loaded",
        12: "no NVML library",
        18: "driver/library version mismatch",
        4: "permission",
    }

    def __init__(self):
        self.library = None
        self.identities = []
        self.known = []
        self.handles = []
        self.pcie = []
        self.next_pcie = 0

    def open(self):
        """Initialise the driver's library; return an empty string, or short words for why it refuses."""
        for folder in ("", *self.FOLDERS):
            try:
                self.library = ctypes.CDLL((ROOT + folder + "/" if folder else "") + "libnvidia-ml.so.1")
            except OSError:
                continue
            code = self.code("InitWithFlags", 0)
            if code != 12:
                return self.refusal(code)
        return self.refusal(12)

    def refusal(self, code):
        """Return short words for a code with which the driver refuses altogether, none for success."""
        return self.REFUSALS.get(code, "NVML error %d" % code) if code else ""

    def code(self, name, *arguments):
        """Return what a function of the driver returns, 13 where it has no such function."""
        try:
            function = getattr(self.library, "nvml" + name)
        except AttributeError:
            return 13
        return function(*arguments)

    def call(self, name, layout, before=(), after=(), version=0):
        """Return what the driver writes into a struct, as a tuple, or the word for why there is nothing. The struct
        goes between the other arguments; one that has a version starts with that and its size."""
        size = struct.calcsize(layout)
        buffer = ctypes.create_string_buffer(struct.pack("I", version << 24 | size), size)
        code = self.code(name, *before, buffer, *after)
        return self.CODES.get(code, "error") if code else struct.unpack(layout, buffer.raw)

    def number(self, name, *before, after=(), layout="I", version=0, place=0):
        """Return one member of what the driver writes about a device, or the word for why there is none."""
        answer = self.call("DeviceGet" + name, layout, before, after, version)
        return answer if isinstance(answer, str) else answer[place]

    def text(self, name, *before):
        """Return what the driver writes as text, empty when it does not."""
        answer = self.call(name, "96s", before, (96,))
        return "" if isinstance(answer, str) else plain(answer[0])

    def read(self):
        """Return one round of answers about all GPUs."""
        started = time.monotonic()
        count = ctypes.c_uint()
        code = self.code("DeviceGetCount_v2", ctypes.byref(count))
        if code:
            return {"note": self.refusal(code)}
        while len(self.identities) < count.value:
            self.identities.append({"index": len(self.identities)})
            self.known.append(False)
            self.handles.append("waiting")
            self.pcie.append(("waiting", "waiting"))
        columns = {metric: [] for metric in GPU_METRICS}
        working = 0
        for index in range(len(self.identities)):
            values = self.read_gpu(index)
            working += values["gpu_handle_error"] == 0
            for metric in GPU_METRICS:
                columns[metric].append(values[metric])
        return {
            "gpus": self.identities,
            "gpu": columns,
            "node": {"gpu_count": working, "nvml_latency": round((time.monotonic() - started) * 1000, 1)},
            "note": "" if self.identities else "no devices",
        }

    def read_gpu(self, index):
        """Return all values of one GPU."""
        handle = ctypes.c_void_p()
        code = self.code("DeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        if code:
            return self.broken(index, code)
        if not self.known[index]:
            self.identify(index, handle)
        values = self.ask(handle)
        if "lost" in values.values():
            return self.broken(index, 15)
        self.handles[index] = handle
        values["gpu_pcie_rx"], values["gpu_pcie_tx"] = self.pcie[index]
        values["gpu_handle_error"] = 0
        return values

    def broken(self, index, code):
        """Return the values of a GPU that does not work; it keeps its place and its last known identity.
        A word stands where its handle was."""
        self.known[index] = False
        self.pcie[index] = ("waiting", "waiting")
        self.handles[index] = word = "lost" if code == 15 else "permission" if code == 4 else "error"
        values = dict.fromkeys(GPU_METRICS, word)
        values["gpu_handle_error"] = code
        return values

    def identify(self, index, handle):
        """Learn what is fixed about a GPU."""
        name, uuid = (self.text("DeviceGet" + word, handle) for word in ("Name", "UUID"))
        if not name or not uuid:
            return
        self.identities[index] = identity = {"index": index, "name": name, "uuid": uuid}
        place = self.call("DeviceGetPciInfo_v3", PCI, (handle,))
        if not isinstance(place, str):
            # As sysfs writes it; a GPU is function 0.
            identity["pci"] = "%04x:%02x:%02x.0" % place[1:4]
        self.known[index] = True

    def ask(self, handle):
        """Return what the driver says about one working GPU, PCIe traffic apart."""
        values = {
            "gpu_sm_clock": self.number("ClockInfo", handle, 1),
            "gpu_power_draw": scaled(self.number("PowerUsage", handle), 1000, 1),
            "gpu_power_limit": scaled(self.number("EnforcedPowerLimit", handle), 1000, 1),
            "gpu_temp_margin": self.number("MarginTemperature", handle, layout=MARGIN, version=1, place=1),
            # What a newer driver has under a new name, an older one has under the old. The sensor is 0, the GPU's.
            "gpu_temp": self.number("TemperatureV", handle, layout=TEMPERATURE, version=1, place=2),
            "gpu_clocks_event_reasons": self.number("CurrentClocksEventReasons", handle, layout="Q"),
        }
        busy = self.call("DeviceGetUtilizationRates", "II", (handle,))
        values["gpu_util"], values["gpu_mem_copy_util"] = (busy,) * 2 if isinstance(busy, str) else busy
        if values["gpu_temp"] == "unsupported":
            values["gpu_temp"] = self.number("Temperature", handle, 0)
        if values["gpu_clocks_event_reasons"] == "unsupported":
            values["gpu_clocks_event_reasons"] = self.number("CurrentClocksThrottleReasons", handle, layout="Q")
        memory = self.call("DeviceGetMemoryInfo_v2", MEMORY, (handle,), version=2)
        if memory == "unsupported":
            memory = self.call("DeviceGetMemoryInfo", OLD_MEMORY, (handle,))
        # Both end with what is used; what there is in all stands first, behind the version.
        used, total = (memory,) * 2 if isinstance(memory, str) else (memory[-1], memory[len(memory) == 5])
        values["gpu_fb_used"], values["gpu_fb_total"] = scaled(used, 1048576), scaled(total, 1048576)
        self.ask_fields(handle, values)
        return values

    def ask_fields(self, handle, values):
        """Fill in what only field ids give. The ids used here are the same in every driver; scope 2**32 - 1 means all
        links, whose traffic is counted in KiB."""
        every_link = 0xFFFFFFFF
        # MEMORY_TEMP, NVLINK_THROUGHPUT_DATA_TX and _RX
        metrics = ("gpu_mem_temp", "nvlink_tx", "nvlink_rx")
        values.update(zip(metrics, self.fields(handle, [82, (138, every_link), (139, every_link)])))
        for metric, field in (("nvlink_tx", 202), ("nvlink_rx", 204)):
            if values[metric] == "unsupported":
                # The fifth generation of NVLink counts bytes (NVLINK_COUNT_XMIT_BYTES, _RCV_BYTES), link by link.
                links = self.fields(handle, [(field, link) for link in range(18)])
                counted = [count for count in links if not isinstance(count, str)]
                if counted:
                    values[metric] = int(sum(counted)) // 1024

    def fields(self, handle, fields):
        """Return the values of field ids, each with its own reason when it is missing."""
        asked = [
            struct.pack(FIELD, *(field if isinstance(field, tuple) else (field, 0)), 0, 0, 0, 0, b"")
            for field in fields
        ]
        buffer = ctypes.create_string_buffer(b"".join(asked))
        code = self.code("DeviceGetFieldValues", handle, len(fields), buffer)
        if code:
            return [self.CODES.get(code, "error")] * len(fields)
        return [self.field_value(*answer[4:]) for answer in struct.iter_unpack(FIELD, buffer.raw[:-1])]

    def field_value(self, kind, code, content):
        """Return the number in a field's answer, or the word for why there is none."""
        if code or kind >= len(KINDS):
            return self.CODES.get(code, "error")
        return struct.unpack_from(KINDS[kind], content)[0]

    def sample_pcie(self, most):
        """Sample the PCIe traffic of the next `most` GPUs in turn, between two rounds: the driver sleeps meanwhile. The
        next question, or the end of questions, breaks it off."""
        for position in range(min(most, len(self.handles))):
            if position and select.select([0], [], [], 0)[0]:
                return
            index = self.next_pcie % len(self.handles)
            self.next_pcie = index + 1
            handle = self.handles[index]
            if not isinstance(handle, str):
                self.pcie[index] = (
                    self.number("PcieThroughput", handle, 1),
                    self.number("PcieThroughput", handle, 0),
                )


def plain(content):
    """Return the text in a buffer."""
    return content.split(b"\0")[0].decode("ascii", "replace")


def scaled(value, divisor, digits=None):
    """Return a number divided, and a reason as it is."""
    return value if isinstance(value, str) else round(value / divisor, digits)


def take_output():
    """Return a stream to the probe that nothing else writes to: what the driver's library prints goes nowhere."""
    own = os.dup(1)
    os.dup2(2, 1)
    return open(own, "wb")


def send(answers, message):
    """Write one answer."""
    answers.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    answers.flush()


def converse(answers):
    """Answer rounds of questions until the pipe closes. A question is a line that holds the seconds between ticks,
    whether what is read rarely is asked for as well, and the length of the source behind it that this takes, once.
    What is read rarely is a line of its own, later; it is read GPU by GPU while no question waits, and one GPU between
    two questions in any case."""
    driver = Driver()
    refusal = driver.open()
    rare = steps = None
    sampled = owed = False
    while True:
        while steps and (owed or not select.select([0], [], [], 0)[0]):
            owed = False
            part = next(steps)
            if part:
                send(answers, {"part": part})
                steps = None
        # Nothing comes behind a question and its source until it is answered, so that nothing is left in the buffer.
        line = sys.stdin.buffer.readline()
        if not line:
            return
        tick_s, asked, length = line.split()
        answer = {"note": refusal} if refusal else driver.read()
        send(answers, answer)
        if "gpus" not in answer:
            # The library keeps what it found at its first call: only a new process can find something else.
            return
        if length != b"0":
            exec(sys.stdin.buffer.read(int(length)), globals())  # noqa: S102 - our own, from the console
            from nvml_rare import Rare

            rare = Rare(driver)
        if asked == b"1":
            steps = steps or rare.read()
        # The first time all of them, so that nobody waits ten seconds for a first value.
        share = min(1.0, float(tick_s) / PCIE_S) if sampled else 1.0
        driver.sample_pcie(math.ceil(len(driver.identities) * share))
        sampled = owed = True


def main():
    """Be the NVML child, to the end of the process."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        # By this name a later probe finds it, should it get stuck; reading the arguments of a stuck process can block.
        with open("/proc/self/comm", "w") as name:
            name.write(sys.argv[1][:15])
    except OSError:
        pass
    answers = take_output()
    try:
        converse(answers)
    except OSError:
        # The probe is gone.
        pass
    except Exception as error:
        place = error.__traceback__
        while place.tb_next:
            place = place.tb_next
        send(answers, {"note": "error in the NVML child: %s, line %d" % (type(error).__name__, place.tb_lineno)})
    os._exit(0)
