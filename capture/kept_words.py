"""What redaction leaves readable: a stated list, and nothing that is not on it.

The words here are the same on every host of the world, so they say nothing about a
site.  What is not listed becomes a pseudonym; a new entry is a change of the rules
(``RULES`` in :mod:`capture.redaction`) and is told in the changelog.
"""

from __future__ import annotations

import re

_PATH_WORDS_TEXT = """
    usr lib lib32 lib64 libx32 bin sbin local opt share libexec root etc var tmp
    run dev shm proc sys mnt media srv boot x86_64-linux-gnu aarch64-linux-gnu python3
    site-packages dist-packages lib-dynload torch nvidia cuda cuda_runtime cublas cudnn
    nccl nvtx cupti targets x86_64-linux sbsa-linux stubs compat rocm openmpi mpich ucx
    libibverbs gconv locale nvidia0 nvidia1 nvidia2 nvidia3 nvidia4 nvidia5 nvidia6
    nvidia7 nvidiactl nvidia-uvm kfd dri infiniband uverbs0 zero null
"""
PATH_WORDS = frozenset(_PATH_WORDS_TEXT.split())
"""Components of a path that stay, wherever they stand."""

_GROUP_WORDS_TEXT = """
    user.slice system.slice machine.slice init.scope app.slice session.slice kubepods
    kubepods.slice kubepods-burstable.slice kubepods-besteffort.slice burstable
    besteffort docker slurm system slurmstepd.scope step_batch step_extern
    step_interactive user docker.service containerd.service sshd.service cron.service
"""
GROUP_WORDS = frozenset(_GROUP_WORDS_TEXT.split())
"""Components of the name of a control group that stay."""

HOMES = frozenset(("home", "Users"))
"""Folders whose members are named after users."""

_VERSIONED = re.compile(
    r"(?:python3|cuda|rocm|gcc|openmpi|ucx)-?\d{0,2}(?:\.\d{1,2}){0,2}"
)

_LIBRARIES = """
    libnccl librccl libnccl-net libcuda libcudart libcudadebugger libcublas libcublasLt
    libcudnn libcudnn_ops libcudnn_cnn libcudnn_adv libcudnn_graph libcufft libcurand
    libcusolver libcusparse libcusparseLt libcupti libcufile libnvrtc libnvrtc-builtins
    libnvJitLink libnvToolsExt libnvidia-ml libnvidia-ptxjitcompiler libnvshmem_host
    libamdhip64 libhsa-runtime64 librocblas libMIOpen librocm_smi64 libamd_smi
    libtorch libtorch_cpu libtorch_cuda libtorch_python libc10 libc10_cuda libshm
    libtorch_global_deps libcaffe2_nvrtc libtriton libgloo libjax libxla
    libmpi libmpi_cxx libmpi_mpifh libpmpi libmpich libopen-rte libopen-pal libprrte
    libpmix libhwloc libevent libevent_core libevent_pthreads libmunge libslurm
    libucp libuct libucs libucm libfabric libibverbs libmlx5 libmlx4 libefa librdmacm
    libnl-3 libnl-route-3 libpsm2 libpsm_infinipath libnuma
    libc libm libdl libpthread librt libresolv libutil libanl libnsl libnss_files
    libnss_dns libnss_systemd libnss_compat ld-linux-x86-64 ld-linux-aarch64 ld
    libgcc_s libstdc++ libgomp libomp libiomp5 libgfortran libquadmath libatomic
    libz libbz2 liblzma libzstd liblz4 libssl libcrypto libffi libexpat libuuid
    libsqlite3 libpython libpython3 libreadline libncursesw libtinfo libtinfow
    libudev libcap libselinux libpcre2-8 libsystemd libelf libbpf libbcc
    libmkl_core libopenblas
    libblas liblapack libtcmalloc libjemalloc
"""
LIBRARY_NAMES = frozenset(_LIBRARIES.split())
"""Libraries that any host may have, by their names before ``.so``."""

_LIBRARY = re.compile(
    r"(?P<name>[A-Za-z0-9_+-]+?)(?:-2\.\d{2}|3?\.\d{1,2}(?=\.so))?"
    r"(?P<end>\.so(?:\.\d{1,6}){0,3})"
)
_SHARED_OBJECT = re.compile(r".+?(\.so(?:\.\d{1,4}){0,3})")

_PROCESS_NAMES_TEXT = """
    python python3 torchrun pt_main_thread pt_data_worker pt_data_pin pt_elastic
    pt_nccl_watchdg pt_nccl_heartbt pt_tcpstore_uv mpirun mpiexec orted orterun prterun
    prted srun slurmstepd hydra_pmi_proxy bash dash sh sleep nccl-tests all_reduce_perf
    ray raylet gdb strace ssh sshd cuda-EvtHandlr cuda00001400006 cuda00001800006
    jemalloc_bg_thd
"""
_PROCESS_NAMES = frozenset(_PROCESS_NAMES_TEXT.split()) | {
    "NCCL Progress",
    "NCCL Service",
    "NCCL I/O Thr",
    "cuda-EvtHandlr",
}

_PROCESS = re.compile(
    r"python3\.\d{1,2}|pt_autograd_\d{1,4}|cuda[0-9a-f]{11}"
    r"|(?:kworker|ksoftirqd|migration|swapper|cpuhp|watchdog)/\d{1,4}"
)

_SETTING_WORDS_TEXT = """
    set max on off y n yes no of at most gt s pcie always madvise never defer tsc hpet
    acpi_pm kvm clock arch_sys_counter hyperv_clocksource_tsc_page xen jiffies
    performance powersave schedutil ondemand conservative userspace ring tree
    collnetdirect collnetchain collnet nvls nvlstree pat ll ll128 simple loc nvl pix pxb
    pxn phb sys lazy eager group parallel fastest_first pci_bus_id warn info trace
    version abort none smp preempt preempt_dynamic preempt_rt rt pti mon tue wed thu fri
    sat sun jan feb mar apr may jun jul aug sep oct nov dec utc debian ubuntu gnu linux
    red hat enterprise rocky almalinux centos stream fedora suse sles opensuse leap
    oracle amazon server lts release bookworm bullseye trixie buster jammy noble focal
    blue onyx green obsidian plow amd64 arm64 x86_64 aarch64 generic aws azure gcp cloud
    lowlatency uek default nvidia 64k
"""
SETTING_WORDS = frozenset(_SETTING_WORDS_TEXT.split())
"""Words of settings, of kernel releases and of distributions, in lower case."""

_SETTING_WORD = re.compile(r"(?:el|fc|amzn|deb)\d{1,3}(?:_\d{1,2}|u\d{1,2})?|x\d{1,2}")


def is_path_word(part: str) -> bool:
    """Tell whether a component of a path stays."""
    return part in PATH_WORDS or bool(_VERSIONED.fullmatch(part)) or is_library(part)


def is_library(part: str) -> bool:
    """Tell whether a file name is that of a well-known library, in any version."""
    match = _LIBRARY.fullmatch(part)
    return match is not None and match["name"] in LIBRARY_NAMES


def library_ending(part: str) -> str:
    """Return what shows that a file is a library, version included; else nothing."""
    match = _SHARED_OBJECT.fullmatch(part)
    return match[1] if match else ""


def is_process_name(name: str) -> bool:
    """Tell whether the name of a process or thread is that of a well-known program."""
    return name in _PROCESS_NAMES or bool(_PROCESS.fullmatch(name))


def is_setting_word(word: str) -> bool:
    """Tell whether a word of a setting stays."""
    low = word.lower()
    return low in SETTING_WORDS or bool(_SETTING_WORD.fullmatch(low))
