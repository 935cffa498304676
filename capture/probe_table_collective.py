"""Collective calls: NCCL (and RCCL, which has the same names) and MPI.

A row's ``call`` names its parameters in order (see :func:`capture.probes.parameters`);
the names are those of ``enum argument_slot``.  ``communicator:h`` is an MPI handle, an
address in Open MPI and a 32-bit number in the MPICH family.
"""

from __future__ import annotations

from capture.probes import Meaning, Probe

_REDUCING = "_ _ size kind:i32 _ communicator stream"
_GATHERING = "_ _ size kind:i32 communicator stream"
_ROOTED = "_ _ size kind:i32 peer:i32 communicator stream"
_ONE_BUFFER = "_ size kind:i32 peer:i32 communicator stream"


def _nccl(
    operation: int,
    name: str,
    call: str,
    meaning: Meaning = Meaning.CALL,
    *,
    how: int = 0,
    has_return: bool = True,
    is_numbered: bool = False,
) -> Probe:
    return Probe(
        stream="collective",
        operation=operation,
        vendor="nvidia",
        layer=1,
        symbols=(name, f"p{name}"),
        call=call,
        library_kind="nccl",
        meaning=meaning,
        how=how,
        has_return=has_return,
        is_numbered=is_numbered,
    )


def _mpi(
    operation: int,
    name: str,
    call: str,
    meaning: Meaning = Meaning.CALL,
    *,
    how: int = 0,
    is_numbered: bool = True,
) -> Probe:
    return Probe(
        stream="collective",
        operation=operation,
        vendor="mpi",
        layer=1,
        symbols=(f"MPI_{name}", f"PMPI_{name}"),
        call=call,
        library_kind="mpi",
        meaning=meaning,
        how=how,
        has_return=True,
        is_numbered=is_numbered and meaning in (Meaning.CALL, Meaning.CHILD),
    )


NCCL = (
    _nccl(1, "ncclAllReduce", _REDUCING, is_numbered=True),
    _nccl(2, "ncclAllGather", _GATHERING, is_numbered=True),
    _nccl(3, "ncclReduceScatter", _REDUCING, is_numbered=True),
    _nccl(4, "ncclAlltoAll", _GATHERING, is_numbered=True),
    _nccl(4, "ncclAllToAll", _GATHERING, is_numbered=True),
    _nccl(5, "ncclBroadcast", _ROOTED, is_numbered=True),
    _nccl(5, "ncclBcast", _ONE_BUFFER, is_numbered=True),
    _nccl(
        6,
        "ncclReduce",
        "_ _ size kind:i32 _ peer:i32 communicator stream",
        is_numbered=True,
    ),
    _nccl(7, "ncclGather", _ROOTED, is_numbered=True),
    _nccl(8, "ncclScatter", _ROOTED, is_numbered=True),
    _nccl(12, "ncclSend", _ONE_BUFFER, Meaning.PAIR_SEND),
    _nccl(13, "ncclRecv", _ONE_BUFFER, Meaning.PAIR_RECV),
    _nccl(14, "ncclGroupStart", "", Meaning.GROUP_START, has_return=False),
    _nccl(14, "ncclGroupEnd", "", Meaning.GROUP_END),
    _nccl(20, "ncclCommInitRank", "made ranks:i32 =id rank:i32", Meaning.INIT, how=3),
    _nccl(
        20,
        "ncclCommInitRankConfig",
        "made ranks:i32 =id rank:i32 _",
        Meaning.INIT,
        how=3,
    ),
    _nccl(
        20,
        "ncclCommInitRankScalable",
        "made ranks:i32 rank:i32 _ id _",
        Meaning.INIT,
        how=3,
    ),
    _nccl(21, "ncclCommInitAll", "made ranks:i32 _", Meaning.INIT_ALL, how=4),
    _nccl(
        22,
        "ncclCommSplit",
        "communicator color:i32 key:i32 made _",
        Meaning.CHILD,
        how=5,
        is_numbered=True,
    ),
    _nccl(
        25,
        "ncclCommShrink",
        "communicator _ _ made _ _",
        Meaning.CHILD,
        how=8,
        is_numbered=True,
    ),
    _nccl(
        26,
        "ncclCommGrow",
        "communicator ranks:i32 id rank:i32 made _",
        Meaning.CHILD,
        how=9,
        is_numbered=True,
    ),
    _nccl(27, "ncclCommFinalize", "communicator"),
    _nccl(28, "ncclCommDestroy", "communicator", Meaning.END),
    _nccl(29, "ncclCommAbort", "communicator", Meaning.END),
    # Not recorded: frameworks poll it, which is a chance to read handles that were
    # still empty when the call that makes them returned.
    _nccl(20, "ncclCommGetAsyncError", "communicator", Meaning.LOOK, has_return=False),
)

_COUNT_THIRD = "_ _ size:i32 _ _ communicator:h"
_COUNT_SECOND = "_ size:i32 _ _ _ _ communicator:h"
_COUNT_ROOT = "_ size:i32 _ _ _ _ peer:i32 communicator:h"
_TO_PEER = "_ size:i32 _ peer:i32 _ communicator:h"

MPI = (
    _mpi(1, "Allreduce", _COUNT_THIRD),
    _mpi(2, "Allgather", _COUNT_SECOND),
    _mpi(2, "Allgatherv", "_ size:i32 _ _ _ _ _ communicator:h"),
    _mpi(3, "Reduce_scatter", "_ _ _ _ _ communicator:h"),
    _mpi(3, "Reduce_scatter_block", _COUNT_THIRD),
    _mpi(4, "Alltoall", _COUNT_SECOND),
    _mpi(4, "Alltoallv", "_ _ _ _ _ _ _ _ communicator:h"),
    _mpi(4, "Alltoallw", "_ _ _ _ _ _ _ _ communicator:h"),
    _mpi(5, "Bcast", "_ size:i32 _ peer:i32 communicator:h"),
    _mpi(6, "Reduce", "_ _ size:i32 _ _ peer:i32 communicator:h"),
    _mpi(7, "Gather", _COUNT_ROOT),
    _mpi(7, "Gatherv", "_ size:i32 _ _ _ _ _ peer:i32 communicator:h"),
    _mpi(8, "Scatter", _COUNT_ROOT),
    _mpi(8, "Scatterv", "_ _ _ _ _ size:i32 _ peer:i32 communicator:h"),
    _mpi(9, "Barrier", "communicator:h"),
    _mpi(10, "Scan", _COUNT_THIRD),
    _mpi(11, "Exscan", _COUNT_THIRD),
    _mpi(12, "Send", _TO_PEER, Meaning.PAIR_SEND),
    _mpi(12, "Ssend", _TO_PEER, Meaning.PAIR_SEND),
    _mpi(13, "Recv", "_ size:i32 _ peer:i32 _ communicator:h _", Meaning.PAIR_RECV),
    _mpi(20, "Init", "_ _", Meaning.WORLD_INIT),
    _mpi(20, "Init_thread", "_ _ _ _", Meaning.WORLD_INIT),
    _mpi(
        22,
        "Comm_split",
        "communicator:h color:i32 key:i32 made:h",
        Meaning.CHILD,
        how=5,
    ),
    _mpi(
        22,
        "Comm_split_type",
        "communicator:h _ key:i32 _ made:h",
        Meaning.CHILD,
        how=10,
    ),
    _mpi(23, "Comm_dup", "communicator:h made:h", Meaning.CHILD, how=6),
    _mpi(23, "Comm_dup_with_info", "communicator:h _ made:h", Meaning.CHILD, how=6),
    _mpi(24, "Comm_create", "communicator:h _ made:h", Meaning.CHILD, how=7),
    _mpi(27, "Finalize", "", is_numbered=False),
    _mpi(28, "Comm_free", "*communicator:h", Meaning.END),
    _mpi(28, "Comm_disconnect", "*communicator:h", Meaning.END),
)
