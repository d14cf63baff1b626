"""The guest's kernel and file system, without booting: packages, modules, libraries, qemu."""

import re
from pathlib import Path

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.testbeds import GuestSettings
from tsnrepro.testbeds import requirements
from tsnrepro.testbeds.guest import initramfs, kernel, machine, testbed

# As apt-cache prints them: Debian 12's and Ubuntu 24.04's chains from metapackage to modules.
PACKAGES = {
    "linux-image-cloud-amd64": "Version: 6.1.192-2\nDepends: linux-image-6.1.0-56-cloud-amd64\n",
    "linux-image-6.1.0-56-cloud-amd64": (
        "Version: 6.1.192-2\n"
        "Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120) | linux-initramfs-tool\n"
    ),
    "linux-image-generic": (
        "Version: 6.8.0-60.63\nDepends: linux-image-6.8.0-60-generic,"
        " linux-modules-extra-6.8.0-60-generic, linux-firmware, intel-microcode\n"
    ),
    "linux-image-6.8.0-60-generic": (
        "Version: 6.8.0-60.63\n"
        "Depends: kmod, linux-base (>= 4.5ubuntu1~16.04.1), linux-modules-6.8.0-60-generic\n"
    ),
    "linux-modules-6.8.0-60-generic": "Version: 6.8.0-60.63\nDepends: \n",
    "linux-modules-extra-6.8.0-60-generic": (
        "Version: 6.8.0-60.63\nDepends: linux-modules-6.8.0-60-generic, wireless-regdb\n"
    ),
    "coreutils": "Version: 9.1\nPre-Depends: libc6 (>= 2.34)\n",
}


@pytest.fixture
def apt(monkeypatch):
    monkeypatch.setattr(kernel, "_output", lambda argv, cwd=None: PACKAGES[argv[-1]])


def test_debians_metapackage_leads_to_its_image(apt):
    assert kernel._resolve("linux-image-cloud-amd64") == [
        "linux-image-6.1.0-56-cloud-amd64=6.1.192-2"
    ]


def test_ubuntus_metapackage_leads_to_image_and_both_packages_of_modules(apt):
    version = "6.8.0-60.63"
    assert kernel._resolve("linux-image-generic") == [
        f"linux-image-6.8.0-60-generic={version}",
        f"linux-modules-6.8.0-60-generic={version}",
        f"linux-modules-extra-6.8.0-60-generic={version}",
    ]


def test_a_package_that_is_no_kernel_is_refused(apt):
    with pytest.raises(TestbedError, match=r"depends on no kernel .*coreutils.*kernel_package"):
        kernel._resolve("coreutils")


def test_a_package_that_apt_does_not_know_says_what_to_do():
    with pytest.raises(TestbedError, match="apt-get update"):
        kernel._resolve("linux-image-that-nobody-ever-made")


def test_a_module_brings_all_that_it_needs():
    depends = initramfs.read_dependencies(
        "kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko\n"
        "kernel/net/802/stp.ko: kernel/net/llc/llc.ko\n"
        "kernel/net/llc/llc.ko:\n"
        "kernel/net/sched/sch_taprio.ko.xz:\n"
        "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko\n"
        "kernel/fs/jbd2/jbd2.ko:\n"
    )
    assert initramfs.closure(depends, re.compile("sch_.*|bridge")) == [
        "kernel/net/802/stp.ko",
        "kernel/net/bridge/bridge.ko",
        "kernel/net/llc/llc.ko",
        "kernel/net/sched/sch_taprio.ko.xz",
    ]


@pytest.mark.parametrize(
    "module",
    [
        *("sch_taprio", "sch_cbs", "sch_mqprio", "sch_etf", "sch_ingress", "sch_tbf", "sch_prio"),
        *("sch_netem", "cls_flower", "act_skbedit", "act_gate", "8021q", "veth", "bridge"),
        *("virtio_blk", "virtio_pci"),
    ],
)
def test_every_module_that_experiments_use_is_taken(module):
    assert initramfs.MODULES.fullmatch(module)


@pytest.mark.parametrize("module", ["ext4", "nvme", "virtio_net", "e1000"])
def test_no_file_system_and_no_network_card_is_taken(module):
    assert not initramfs.MODULES.fullmatch(module)


def test_a_programs_libraries_are_the_ones_its_running_copy_has_mapped():
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    program = Path("/proc/self/exe").resolve()
    mapped = set(re.findall(r"(/\S+/libc\.so\.6|/\S+/ld-linux-x86-64\.so\.2)$", maps, re.M))
    found = {str(path.resolve()) for path in initramfs.libraries([program])}
    assert mapped
    assert mapped <= found


def test_a_script_has_no_libraries(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    assert initramfs.libraries([tool]) == []


def test_a_program_that_is_not_installed_is_named():
    with pytest.raises(TestbedError, match="no-such-tool"):
        requirements.find("no-such-tool")


def test_a_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    with pytest.raises(TestbedError, match=r"program tc,.*Install the package iproute2"):
        requirements.find("tc")


def guest(acceleration) -> machine.Guest:
    image = kernel.Kernel(Path("/k/vmlinuz"), Path("/k"), "6.1", ("package",))
    return machine.Guest(image, acceleration, seed=7, epoch="2026-01-01T00:00:00", memory_mb=256)


def options(acceleration) -> str:
    return " ".join(machine.command(guest(acceleration), Path("/i"), Path("/d"), Path("/c")))


@pytest.mark.parametrize("acceleration", ["kvm", "tcg"])
def test_a_guest_has_no_network_device(acceleration):
    command = options(acceleration)
    assert "-nic none" in command
    assert "-nodefaults" in command
    assert "-netdev" not in command


def test_only_tcg_has_virtual_time():
    assert "-icount shift=0,sleep=off" in options("tcg")
    assert "clock=vm" in options("tcg")
    assert "nokaslr" in options("tcg")
    assert "icount" not in options("kvm")
    assert "clock=vm" not in options("kvm")


def test_kvm_that_is_asked_for_and_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(machine.os, "access", lambda *_: False)
    assert machine.accelerate("auto", guest("kvm"), b"") == "tcg"
    assert machine.accelerate("tcg", guest("kvm"), b"") == "tcg"
    with pytest.raises(TestbedError, match=r"/dev/kvm.*Set acceleration"):
        machine.accelerate("kvm", guest("kvm"), b"")


def test_whether_kvm_works_is_tried_once(monkeypatch, tmp_path):
    tried = []

    def boot(*_, **bounds):
        tried.append(bounds["deadline_s"])
        raise TestbedError("the guest did not boot")

    monkeypatch.setattr(machine, "boot", boot)
    monkeypatch.setattr(machine, "version", lambda: "7.2")
    monkeypatch.setattr(machine.os, "access", lambda *_: True)
    monkeypatch.setattr(machine, "cache_folder", lambda _: tmp_path)
    assert machine.accelerate("auto", guest("kvm"), b"") == "tcg"
    assert machine.accelerate("auto", guest("kvm"), b"") == "tcg"
    with pytest.raises(TestbedError, match="KVM does not work here: the guest did not boot"):
        machine.accelerate("kvm", guest("kvm"), b"")
    assert tried == [machine.TRIAL_SECONDS]
    monkeypatch.setattr(machine, "version", lambda: "8.0")
    machine.accelerate("auto", guest("kvm"), b"")
    assert len(tried) == 2  # another qemu may do better


def test_a_missing_qemu_is_missing(monkeypatch):
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    missing = testbed.missing_requirements()
    assert "the program qemu-system-x86_64" in missing
    assert "the program tc" in missing


@pytest.mark.parametrize(
    "values", [{"acceleration": "xen"}, {"kernel_package": "-o x"}, {"epoch": "today"}, {"x": 1}]
)
def test_settings_refuse_what_they_do_not_know(values):
    with pytest.raises(ValueError, match=next(iter(values))):
        GuestSettings(**values)
