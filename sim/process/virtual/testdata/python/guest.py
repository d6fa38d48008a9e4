"""Threads, sleeps, HTTP, children and randomness of Python's standard library."""

import asyncio
import http.client
import os
import queue
import random
import subprocess
import sys
import threading
import time
import uuid

start = time.monotonic()
q = queue.Queue()


def worker(n):
    for i in range(5):
        time.sleep(random.random() * 10)
        conn = http.client.HTTPConnection("10.0.0.1", 80, timeout=30)
        body = b"x" * random.randrange(100000)
        conn.request("POST", f"/{n}/{i}", body)
        resp = conn.getresponse()
        assert resp.read() == body
        conn.close()
        q.put((n, i, len(body)))


threads = [threading.Thread(target=worker, args=(n,)) for n in range(3)]
for t in threads:
    t.start()
got = [q.get() for _ in range(15)]
for t in threads:
    t.join()
print(got)
print(uuid.uuid4(), hash("a string"), time.strftime("%F", time.gmtime()), os.getpid())


async def main():
    await asyncio.gather(*(asyncio.sleep(n) for n in range(60)))
    p = await asyncio.create_subprocess_exec("/bin/sleep", "30")
    await p.wait()


asyncio.run(main())
print(subprocess.run(["/bin/sh", "-c", "sleep 40; echo child; exit 3"], capture_output=True))
try:
    queue.Queue().get(timeout=100)
except queue.Empty:
    pass
print("took", round(time.monotonic() - start) > 200, file=sys.stderr)
