"""A Kubernetes client of Python's standard library: a thread that watches, and two that write."""

import http.client
import json
import os
import queue
import ssl
import threading
import time
import uuid

DIR = "/var/run/secrets/kubernetes.io/serviceaccount/"
MAPS = "/api/v1/namespaces/default/configmaps"
token = open(DIR + "token").read()
context = ssl.create_default_context(cafile=DIR + "ca.crt")


def connect():
    return http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), context=context, timeout=600
    )


def call(conn, method, path, body=None):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    conn.request(method, path, json.dumps(body) if body else None, headers)
    return conn.getresponse()


def watch(events, version):
    resp = call(connect(), "GET", MAPS + "?watch=true&resourceVersion=" + version)
    while line := resp.readline():
        event = json.loads(line)
        events.put((event["type"], event["object"]["metadata"]["name"]))


def write(n):
    conn = connect()
    for i in range(5):
        time.sleep(60 * (n + 1))
        name = "w%d-%d" % (n, i)
        obj = {"metadata": {"name": name}, "data": {"id": str(uuid.uuid4())}}
        resp = call(conn, "POST", MAPS, obj)
        assert resp.status == 201, resp.read()
        resp.read()
    conn.close()


listed = json.load(call(connect(), "GET", MAPS))
events = queue.Queue()
threading.Thread(target=watch, args=(events, listed["metadata"]["resourceVersion"]), daemon=True).start()
writers = [threading.Thread(target=write, args=(n,)) for n in range(2)]
for t in writers:
    t.start()
seen = [events.get(timeout=3600) for _ in range(10)]
for t in writers:
    t.join()
print(sorted(name for _, name in seen), flush=True)
print(time.strftime("%H:%M", time.gmtime()), flush=True)
