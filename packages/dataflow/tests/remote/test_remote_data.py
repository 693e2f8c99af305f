"""Flows between processes: each datapoint once, while processes join, leave, die or intrude."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import islice

import msgpack
import numpy as np
import pytest
import zmq
from resources import resources

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    MapData,
    MessageError,
    RemoteError,
    SendError,
)
from towerpack_dataflow.remote import (
    CurveKeys,
    DataFlowSender,
    RemoteDataZMQ,
    _link,
    pack_message,
    send_dataflow_zmq,
    unpack_message,
)

pytestmark = pytest.mark.timeout(180)
ANY = "tcp://127.0.0.1:*"


@pytest.fixture
def ipc_addr(tmp_path, monkeypatch):
    """The relative address of a separate socket: the path of a test folder may be too long."""
    monkeypatch.chdir(tmp_path)
    return "ipc://data"


def numbers(count=20):
    return DataFromList([[number, np.full(2000, number, "f4")] for number in range(count)], shuffle=False)


@contextmanager
def sending(df, addr=ANY, passes=None, **options):
    """A sender that runs in a thread; its error is raised at the end."""
    errors = []

    def run():
        try:
            sender.run(passes)
        except Exception as error:
            errors.append(error)

    with DataFlowSender(df, addr, **options) as sender:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield sender.address
        except BaseException:  # nobody receives the rest: report the failure instead of waiting
            sender.close()
            raise
        finally:
            if passes is None:
                sender.close()
            thread.join()
    for error in errors:
        if passes is not None:
            raise error


def firsts(datapoints):
    return [datapoint[0] for datapoint in datapoints]


def in_thread(func):
    """Calls `func` in a thread; returns the thread, and a list that takes the result or the error."""
    results = []

    def run():
        try:
            results.append(func())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_passes_arrive_whole_and_in_order(transport, ipc_addr):
    with sending(numbers(), ANY if transport == "tcp" else ipc_addr, passes=3) as address:
        remote = RemoteDataZMQ(address)
        for _ in range(3):
            for number, array in (got := list(remote)):
                assert (array == number).all() and array.flags.writeable
            assert firsts(got) == list(range(20))
    assert remote.live and not remote.addressable and remote.state_dict() == {}


def test_timeouts_may_have_any_length():
    with sending(numbers(), passes=1, timeout=1e300) as address:
        assert firsts(RemoteDataZMQ(address, timeout=1e300)) == list(range(20))


def test_operators_stand_over_it_and_batches_are_sent():
    with sending(BatchData(numbers(), 5), passes=1) as address:
        flow = MapData(RemoteDataZMQ(address), lambda dp: [dp[0] * 2])
        assert [batch[0].tolist() for batch in flow][1] == [10, 12, 14, 16, 18]


def test_a_flow_may_fill_one_array_again_and_again():
    def fill():
        array = np.zeros(20000)
        for number in range(10):
            array[:] = number
            yield [array]

    with sending(DataFromGenerator(fill), passes=1) as address:
        assert [array[0] for (array,) in RemoteDataZMQ(address)] == list(range(10))


def test_several_senders_and_receivers_hand_out_each_datapoint_once():
    all_have_joined = threading.Barrier(3)

    def read(addresses):
        found, waits = [], True
        for number, _ in RemoteDataZMQ(addresses, hwm=4):
            found.append(number)
            if waits and len({number < 100 for number in found}) == 2:
                all_have_joined.wait()
                waits = False
        return found

    others = MapData(numbers(80), lambda dp: [dp[0] + 100, None])
    with sending(numbers(80), passes=1) as one, sending(others, passes=1) as other:
        readers = [in_thread(lambda: read([one, other])) for _ in range(3)]
        for thread, _ in readers:
            thread.join()
    found = [number for _, results in readers for number in results[0]]
    assert sorted(found) == [*range(80), *range(100, 180)]


def test_a_leaving_receiver_returns_untaken_datapoints():
    with sending(numbers(), passes=1) as address:
        begun = iter(RemoteDataZMQ(address, hwm=10))
        early = firsts(islice(begun, 3))
        begun.close()
        assert sorted(early + firsts(RemoteDataZMQ(address))) == list(range(20))


def test_the_sender_makes_no_more_than_is_wanted():
    made = []

    def make():
        for number in range(1000):
            made.append(number)
            yield [number]

    with sending(DataFromGenerator(make)) as address:
        begun = iter(RemoteDataZMQ(address, hwm=3))
        assert firsts(islice(begun, 5)) == [0, 1, 2, 3, 4]
        assert len(made) <= 5 + 3 + 4
        begun.close()


READER = """
import sys
from towerpack_dataflow.remote import RemoteDataZMQ
for datapoint in RemoteDataZMQ(sys.argv[1], hwm=2, timeout=20):
    print(datapoint[0], flush=True)
    sys.stdin.readline()
"""
SENDER = """
import sys
from towerpack_dataflow.remote import send_dataflow_zmq
points = [[number] for number in range(int(sys.argv[2]))]
print("listens", flush=True)
send_dataflow_zmq(points, sys.argv[1], timeout=2)
"""


@contextmanager
def process(script, *arguments):
    child = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Background processes of shells ignore Ctrl-C, and so do their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT])
def test_datapoints_of_a_killed_or_silent_receiver_go_to_others(sign):
    with sending(numbers(), passes=1, timeout=3.0) as address, process(READER, address) as child:
        early = []
        for _ in range(8):
            early.append(int(child.stdout.readline()))
            child.stdin.write("\n")
            child.stdin.flush()
        early.append(int(child.stdout.readline()))
        child.send_signal(sign)
        rest = firsts(RemoteDataZMQ(address))
    assert early == list(range(9)) and len(set(rest)) == len(rest)
    assert sorted({*early, *rest}) == list(range(20))
    assert not set(early[:-2]) & set(rest)  # with two on their way, all before were confirmed


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_sender_that_is_gone_is_an_error_and_a_later_one_serves_the_next_pass(sign, ipc_addr, monkeypatch):
    remote = RemoteDataZMQ(ipc_addr, hwm=2, timeout=60)
    with process(SENDER, ipc_addr, "1000000") as child:
        child.stdout.readline()
        begun = iter(remote)
        assert firsts(islice(begun, 2)) == [0, 1]
        child.send_signal(sign)
        child.wait()
        with (
            monkeypatch.context() as later,
            pytest.raises(
                RemoteError, match=r"no sender has answered at ipc|has ended: the sender was stopped"
            ),
        ):
            later.setattr(_link, "monotonic", lambda: time.monotonic() + 61)
            list(begun)
    later = RemoteDataZMQ(ipc_addr)
    thread, results = in_thread(lambda: firsts(later))
    with process(SENDER, ipc_addr, "4"):
        thread.join()
    assert results == [[0, 1, 2, 3]]


@pytest.mark.long
@pytest.mark.slow
def test_a_datapoint_may_take_longer_than_the_timeout_of_the_receiver():
    pause = threading.Event()

    def slow():
        yield [0]
        pause.wait(4)
        yield [1]

    with sending(DataFromGenerator(slow), passes=1) as address:
        assert firsts(RemoteDataZMQ(address, timeout=2)) == [0, 1]


PING = pack_message(("ping", 1.0, 0, 1))
ARRAY = msgpack.packb(("x" * 10**5, (1,), b""))
LONG_NAME = [pack_message(1)[0][:12] + msgpack.packb(msgpack.ExtType(1, ARRAY))]
FLOOD_SECONDS = 10 if "TOWERPACK_EXAMPLES" in os.environ else 0


def resident(process):
    """Kilobytes of memory of a process."""
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ([b"rubbish"], 60_000),
        (LONG_NAME, 1000),
        (PING, 20_000),
        (pack_message(("ping", 1.0, 2 ** (8 * 10**5), 1)), 1000),
        ([b"large" * 10**5], 200),
        ([b"many"] * 1000, 100),
    ],
    ids=["rubbish", "a long name of a dtype", "pings", "a large number", "large messages", "many frames"],
)
def test_a_flood_of_a_stranger_that_reads_nothing_takes_no_memory(frames, count, ipc_addr):
    with process(SENDER, ipc_addr, "1000") as child, zmq.Context() as context:
        child.stdout.readline()
        with context.socket(zmq.DEALER) as stranger:
            stranger.setsockopt(zmq.RCVHWM, 1)
            stranger.setsockopt(zmq.LINGER, 0)
            stranger.connect(ipc_addr)
            stranger.send_multipart(pack_message(("begin", 1.0, 1, 10**9, None)))
            for _ in range(count // 10):
                stranger.send_multipart(frames)
            before = resident(child)
            until = time.monotonic() + FLOOD_SECONDS
            while True:
                for _ in range(count):
                    stranger.send_multipart(frames)
                if time.monotonic() >= until:
                    break
            grown = resident(child) - before
        assert len(list(islice(RemoteDataZMQ(ipc_addr), 3))) == 3
    assert grown < 2**13, f"{grown} KB"


FEW_DESCRIPTORS = """
import os, resource
from towerpack_dataflow import RemoteError
from towerpack_dataflow.remote import DataFlowSender, RemoteDataZMQ
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 5, 4096))
for make in lambda: DataFlowSender([], "tcp://127.0.0.1:*"), lambda: list(RemoteDataZMQ("tcp://127.0.0.1:1")):
    try:
        make()
    except RemoteError as error:
        print(error)
"""


@pytest.mark.slow
def test_too_few_descriptors_are_an_error_and_not_the_end_of_the_process():
    child = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS], capture_output=True, text=True, timeout=50
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("takes up to 16 file descriptors, but") == 2


@pytest.mark.slow
def test_a_restarted_sender_in_the_middle_of_a_pass_is_an_error(ipc_addr):
    begun = iter(RemoteDataZMQ(ipc_addr, hwm=2, timeout=30))
    with process(SENDER, ipc_addr, "1000000") as child:
        assert firsts(islice(begun, 2)) == [0, 1]
        child.kill()
        child.wait()
    with (
        process(SENDER, ipc_addr, "1000000"),
        pytest.raises(RemoteError, match="was restarted in the middle"),
    ):
        list(begun)


@contextmanager
def relay(address):
    """A port that leads to a sender, and a function that breaks all connections through it."""
    target = (lambda host, port: (host, int(port)))(*address.removeprefix("tcp://").split(":"))
    listener = socket.create_server(("127.0.0.1", 0))
    pairs = []

    def pump(source, sink):
        while True:
            try:
                if not (data := source.recv(65536)):
                    break
                sink.sendall(data)
            except OSError:
                break
        for end in (source, sink):
            end.close()

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(target)
            pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def cut():
        for ends in pairs:
            for end in ends:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", cut
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        cut()


@pytest.mark.slow
def test_a_connection_that_breaks_loses_and_doubles_nothing():
    with sending(numbers(3000), passes=1, timeout=1.5) as address, relay(address) as (through, cut):
        found = []
        for datapoint in RemoteDataZMQ(through, hwm=20):
            found.append(datapoint[0])
            if len(found) in (100, 1000, 2500):
                cut()
    assert sorted(found) == list(range(3000))


def test_an_error_in_the_flow_reaches_both_sides():
    def broken():
        yield [1]
        raise ZeroDivisionError("no more")

    with pytest.raises(ZeroDivisionError), sending(DataFromGenerator(broken), passes=1) as address:
        begun = iter(RemoteDataZMQ(address))
        with pytest.raises(RemoteError, match=r"has ended: ZeroDivisionError: no more\n(?s:.*)in broken"):
            list(begun)


def test_an_unsendable_datapoint_is_an_error_on_both_sides():
    with (
        pytest.raises(SendError, match=r"builtins\.object"),
        sending([[object()]], passes=1) as address,
        pytest.raises(RemoteError, match="SendError"),
    ):
        list(RemoteDataZMQ(address))


def test_without_a_sender_there_is_an_error(ipc_addr):
    with pytest.raises(RemoteError, match=r"no sender has answered at ipc.* for 0\.3 s"):
        list(RemoteDataZMQ(ipc_addr, timeout=0.3))


def test_an_invalid_address_is_an_error_and_leaves_nothing_behind():
    before = resources()
    with pytest.raises(RemoteError, match="a receiver cannot connect to tcp://no-port: Invalid argument"):
        list(RemoteDataZMQ([ANY.replace("*", "9"), "tcp://no-port"]))
    assert not resources() - before


def test_keys_admit_one_receiver_and_no_other():
    mine, theirs = CurveKeys.pair()
    assert mine.secret not in repr(mine)
    (_, stranger) = CurveKeys.pair()
    stranger = CurveKeys(stranger.public, stranger.secret, theirs.peers)
    deceived = CurveKeys(theirs.public, theirs.secret, (stranger.public,))
    with sending(numbers(), passes=1, keys=mine) as address:
        for wrong in (None, stranger, deceived):
            with pytest.raises(RemoteError, match="no sender has answered"):
                list(RemoteDataZMQ(address, keys=wrong, timeout=0.3))
        assert firsts(RemoteDataZMQ(address, keys=theirs)) == list(range(20))


def of_version(frames, number):
    return [frames[0][:4] + number.to_bytes(2, "little") + frames[0][6:], *frames[1:]]


STRANGE = [
    [b"GET / HTTP/1.1"],
    [b""],
    of_version(pack_message(("begin", 1.0, 5, 10**9, None)), 9),
    pack_message(("begin", "now", 5, 10**9, None)),
    pack_message(("begin", 1.0, 5, 10**9, (b"run", "one"))),
    pack_message(("taken", [[1]])),
    pack_message(np.zeros(1000)),
    pack_message(5),
]


def test_strange_messages_to_a_sender_are_refused_and_change_nothing(caplog):
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        with sending(numbers(), passes=1) as address:
            begun = iter(RemoteDataZMQ(address, hwm=2))
            early = firsts(islice(begun, 3))
            stranger.connect(address)
            for frames in STRANGE:
                stranger.send_multipart(frames)
                assert unpack_message(stranger.recv_multipart())[0] == "refused"
            stranger.send_multipart([bytes(2**21)])  # the connection is closed before there is memory for it
            assert early + firsts(begun) == list(range(20))
        stranger.close(0)
    assert "rejected a message to the sender, number 1" in caplog.text


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([b"HTTP/1.1 400 Bad Request"], "not a message: they begin with b'HTTP'"),
        (of_version(pack_message(("unknown",)), 9), "a message of version 9"),
        (pack_message(("data", 1)), "a message unknown to this release"),
        (pack_message(np.zeros(10)), "a message unknown to this release"),
        (pack_message(("data", b"run", 0, 0, np.zeros(10000))), "80"),
    ],
)
def test_strange_messages_to_a_receiver_are_an_error(frames, message):
    with zmq.Context() as context, context.socket(zmq.ROUTER) as stranger:
        port = stranger.bind_to_random_port("tcp://127.0.0.1")
        thread, results = in_thread(
            lambda: list(RemoteDataZMQ(f"tcp://127.0.0.1:{port}", max_bytes=60000, timeout=1))
        )
        name, *_ = stranger.recv_multipart()
        stranger.send_multipart([name, *frames])
        thread.join()
        stranger.close(0)
    assert isinstance(results[0], (MessageError, RemoteError)), results
    assert message in str(results[0]) or "no sender has answered" in str(results[0])


def test_a_sender_that_sends_more_than_was_asked_for_is_an_error():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as stranger:
        port = stranger.bind_to_random_port("tcp://127.0.0.1")
        thread, results = in_thread(lambda: list(RemoteDataZMQ(f"tcp://127.0.0.1:{port}", hwm=3)))
        name, begin = stranger.recv_multipart()
        stranger.send_multipart([name, *pack_message(("pass", b"run", 0, unpack_message([begin])[1], 30.0))])
        for number in range(200):
            stranger.send_multipart([name, *pack_message(("data", b"run", 0, number, [number]))])
        thread.join()
        stranger.close(0)
    assert isinstance(results[0], MessageError) and "this receiver's limit of 3" in str(results[0])


def test_datapoints_larger_than_allowed_are_refused_before_they_are_sent():
    with (
        sending(numbers()) as address,
        pytest.raises(MessageError, match=r"8\d\d\d bytes, .*the limit is 8000"),
    ):
        list(RemoteDataZMQ(address, max_bytes=8000))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: RemoteDataZMQ("localhost:5"), ArgumentError, "addrs is an address such as"),
        (lambda: RemoteDataZMQ([]), ArgumentError, "received none"),
        (lambda: RemoteDataZMQ("tcp://a:1", hwm=0), ArgumentError, "hwm is an integer from 1 up"),
        (lambda: RemoteDataZMQ(f"ipc:///{'é' * 54}"), ArgumentError, "at most 107 bytes.*with a path of 109"),
        (lambda: send_dataflow_zmq([], "udp://*:5"), ArgumentError, "addr is an address such as"),
        (lambda: send_dataflow_zmq(5, ANY), ArgumentTypeError, "received int"),
        (
            lambda: send_dataflow_zmq([], "ipc:///no/such/folder"),
            RemoteError,
            "a sender cannot listen on ipc",
        ),
        (lambda: send_dataflow_zmq([], ANY, passes=0), ArgumentError, "passes is an integer from 1 up"),
        (lambda: CurveKeys("short", "x" * 40, ("y" * 40,)), ArgumentError, "keys of 40 characters"),
        (lambda: CurveKeys("é" * 40, "x" * 40, ("y" * 40,)), ArgumentError, "keys of 40 characters"),
    ],
)
def test_wrong_arguments_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_nothing_is_left_behind():
    before = resources()
    with sending(numbers(), passes=1) as address:
        list(RemoteDataZMQ(address))
    assert not resources() - before


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["zmq", "msgpack"])
def test_without_the_extra_the_import_names_it(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import towerpack_dataflow.remote"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'towerpack-dataflow[remote]'" in done.stderr
