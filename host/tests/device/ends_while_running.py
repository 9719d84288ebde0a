"""Ends a session in one way while another thread runs it, and prints that thread's outcome.

Run as `python ends_while_running.py DEVICE WAY`, so that a crash or hang does not end the tests.
"""

import _thread
import contextlib
import gc
import signal
import sys
import threading
import time

import numpy as np

import matloom
from matloom.arch.config import load_config
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceError
from matloom.ir.attributes import FullyConnected
from matloom.ir.builder import GraphBuilder
from matloom.ir.graph import Op, Quantisation

#: Seconds after which the session ends.
LATER = 0.3
#: Devices on which a call takes seconds, and how long a thread may need to come out of one.
SLOW = ("uart", "soc", "netlist")
PATIENCE, MORE_PATIENCE = 20, 200


def small_network():
    """Return one dense layer, which a simulated line or netlist runs in seconds, not minutes."""
    scale = Quantisation(scale=(0.1,), zero_point=(0,))
    builder = GraphBuilder("dense")
    x = builder.input("x", (1, 8), "int8", scale)
    weights = builder.constant(np.ones((4, 8), np.int8), scale)
    dense = FullyConnected()
    return builder.graph(builder.add(Op.FULLY_CONNECTED, [x, weights], dense))


def network_of(device):
    """Return the network that a device runs, and an input for it."""
    if device in SLOW:
        return small_network(), np.zeros((1, 8), np.int8)
    return NETWORK, np.zeros((1, 8, 8, 1), np.int8)


@contextlib.contextmanager
def opened(device):
    if device != "uart":
        yield matloom.load(network_of(device)[0], device=device, config="nano")
        return
    from matloom.device.linked import LinkedChip

    config = load_config("nano+windows=0+maximum=0")
    with LinkedChip(config, optimise=False) as chip:
        yield matloom.load(network_of(device)[0], device=chip.device, config=config)


def run_for_ever(session, got):
    try:
        while True:
            session.run(session.frame)
    except BaseException as error:
        got.append(f"{type(error).__name__}: {error}")


def from_another_thread(session, way):
    got = []
    thread = threading.Thread(target=run_for_ever, args=(session, got))
    thread.start()
    time.sleep(LATER)
    began = time.monotonic()
    if way == "close":
        session.close()
    elif way == "with":
        with session:
            pass
    else:
        with contextlib.suppress(RuntimeError), session:
            raise RuntimeError("an error of the caller's")
    assert time.monotonic() - began < 5
    thread.join(10)
    assert not thread.is_alive(), "the thread still runs"
    return got


def from_a_signal(session, way):
    """End the call, or close the session from inside it, by a signal to the running thread."""
    got = []
    if way == "interrupt":
        # A shell has what it runs in the background ignore the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(LATER, _thread.interrupt_main).start()
    else:
        signal.signal(signal.SIGALRM, lambda *_: session.close())
        signal.setitimer(signal.ITIMER_REAL, LATER)
    run_for_ever(session, got)
    if way == "interrupt":
        # The session is whole, and runs again.
        session.run(session.frame)
        session.close()
    return got


def dropped(session, device):
    """Let sessions be garbage-collected in two threads while a third thread runs one."""
    got = []
    patience = MORE_PATIENCE if device in SLOW else PATIENCE

    def drop():
        for _ in range(1 if device in SLOW else 5):
            network, frame = network_of(device)
            dropped = matloom.load(network, device="model", config="nano")
            dropped.itself = dropped
            dropped.run(frame)
            matloom.load(network, session.driver, session.program.config).run(frame)
            gc.collect()

    dropper = threading.Thread(target=drop)
    runner = threading.Thread(target=run_for_ever, args=(session, got))
    for thread in (dropper, runner):
        thread.start()
    drop()
    dropper.join(patience)
    assert not dropper.is_alive(), "the thread that drops sessions still runs"
    session.close()
    runner.join(patience)
    assert not runner.is_alive(), "the thread that runs one still does"
    return got


def main(device, way):
    with opened(device) as session:
        session.frame = network_of(device)[1]
        session.run(session.frame)
        if way == "exit":
            threading.Thread(target=run_for_ever, args=(session, []), daemon=True).start()
            time.sleep(LATER)
            print("leaving", flush=True)
            # A board of this process goes down with it.
            sys.exit()
        if way == "garbage":
            got = dropped(session, device)
        elif way in ("interrupt", "signal"):
            got = from_a_signal(session, way)
        else:
            got = from_another_thread(session, way)
        try:
            session.run(session.frame)
        except DeviceError as error:
            got.append(f"{type(error).__name__}: {error}")
        print("\n".join(got), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
