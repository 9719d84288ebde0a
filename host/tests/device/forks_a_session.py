"""Runs a session in a forked process, closes it there, then in the parent; prints each outcome.

Run as `python forks_a_session.py DEVICE idle|busy`, so that a crash or hang does not end the tests.
"""

import os
import sys
import threading
import time

import numpy as np

import matloom
from matloom.data.digits import NETWORK
from matloom.device.errors import DeviceClosedError

FRAME = np.zeros((1, 8, 8, 1), np.int8)
#: Seconds that the thread of a busy session has to begin.
BEGUN = 0.3


def in_a_child(session, expected):
    """Run and close the session in a forked process; print how that ended."""
    process = os.fork()
    if not process:
        try:
            print("child", np.array_equal(session.run(FRAME), expected), flush=True)
        except DeviceClosedError as error:
            print("child", error, flush=True)
        session.close()
        del session
        os._exit(0)
    print("child ended", os.waitpid(process, 0)[1], flush=True)


def main(device, kind):
    session = matloom.load(NETWORK, device=device, config="nano")
    expected, ends = session.run(FRAME), threading.Event()

    def run():
        while not ends.is_set():
            session.run(FRAME)

    thread = threading.Thread(target=run)
    if kind == "busy":
        thread.start()
        time.sleep(BEGUN)
    in_a_child(session, expected)
    ends.set()
    if kind == "busy":
        thread.join()
    print("parent", np.array_equal(session.run(FRAME), expected))
    session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
