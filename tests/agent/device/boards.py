"""What boards show of themselves in /proc and /sys: the files that the agent looks at, as those boards have them.

Names and units are those of: the Raspberry Pi documentation ("vcgencmd get_throttled"; the kernel's device trees for
the models' names), the Jetson Linux Developer Guide ("Power Monitor" and "Thermal zones" of the Orin Nano series), the
Linux kernel (Documentation/arch/arm64/elf_hwcaps.rst, ABI/testing/sysfs-class-power and -powercap), Qualcomm's KGSL
driver (`gpu_busy_percentage`). Values are of a board at work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_A72 = "fp asimd evtstrm crc32 cpuid"
_A76 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
_X4 = f"{_A76} sha3 sm3 sm4 asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg dcpodp flagm2 frint i8mm bf16 dgh bti"

BOARDS: dict[str, Mapping[str, str]] = {
    "raspberry-pi-4": {
        "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
        "proc/cpuinfo": f"processor\t: 0\nFeatures\t: {_A72}\nCPU part\t: 0xd08\n",
        "proc/meminfo": "MemTotal:        3884340 kB\nMemFree:          812000 kB\nMemAvailable:    3211220 kB\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "61342\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1800000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
        "sys/devices/platform/soc/soc:firmware/get_throttled": "0\n",
    },
    "raspberry-pi-5": {
        "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
        "proc/cpuinfo": f"processor\t: 0\nFeatures\t: {_A76}\nCPU part\t: 0xd0b\n",
        "proc/meminfo": "MemTotal:        8245904 kB\nMemFree:         6012000 kB\nMemAvailable:    7011220 kB\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "83100\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
        "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
    },
    "jetson-orin-nano": {
        "proc/device-tree/model": "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0",
        "proc/cpuinfo": f"processor\t: 0\nFeatures\t: {_A76} uscat ilrcpc flagm paca pacg\nCPU part\t: 0xd42\n",
        "proc/meminfo": "MemTotal:        7802000 kB\nMemFree:         1200000 kB\nMemAvailable:    5100000 kB\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "52343\n",
        "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
        "sys/class/thermal/thermal_zone1/temp": "54125\n",
        "sys/class/thermal/thermal_zone2/type": "cv0-thermal\n",
        "sys/class/thermal/thermal_zone2/temp": "-256000\n",
        "sys/class/thermal/thermal_zone8/type": "tj-thermal\n",
        "sys/class/thermal/thermal_zone8/temp": "54250\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1510400\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "schedutil\n",
        "sys/devices/platform/gpu.0/load": "437\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/in1_label": "VDD_IN\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/in1_input": "4968\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/curr1_input": "1464\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/in2_label": "VDD_CPU_GPU_CV\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/in2_input": "4960\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/curr2_input": "280\n",
        "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/in7_label": "sum of shunt voltages\n",
    },
    "snapdragon-8-gen-3": {
        "proc/cpuinfo": f"processor\t: 0\nFeatures\t: {_X4}\nCPU part\t: 0xd80\n",
        "proc/meminfo": "MemTotal:       11534336 kB\nMemFree:          402000 kB\nMemAvailable:    4402000 kB\n",
        "sys/class/thermal/thermal_zone22/type": "cpu-1-0-0\n",
        "sys/class/thermal/thermal_zone22/temp": "47100\n",
        "sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq": "3302400\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2265600\n",
        "sys/class/kgsl/kgsl-3d0/gpu_busy_percentage": "12 %\n",
        "sys/class/power_supply/battery/type": "Battery\n",
        "sys/class/power_supply/battery/status": "Discharging\n",
        "sys/class/power_supply/battery/capacity": "67\n",
        "sys/class/power_supply/battery/voltage_now": "3981000\n",
        "sys/class/power_supply/battery/current_now": "-913000\n",
    },
}
BOARDS["jetson-agx-orin"] = {
    **BOARDS["jetson-orin-nano"],
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "proc/meminfo": "MemTotal:       64349000 kB\nMemFree:        52000000 kB\nMemAvailable:   60100000 kB\n",
}
"""Board -> {path below / : contents}."""


def lay_out(board: str, root: Path) -> Path:
    """Write what a board shows below `root`, and return that."""
    for name, content in BOARDS[board].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root
