"""Uses an MCP server through Latchkey over raw HTTP, as the specification says, with the standard library alone.

Lists, calls, is refused a tool outside of its session, and takes up an event stream that broke off.
Writes one line of JSON at the end.
"""

import json
import os
import urllib.error
import urllib.request

ADDRESS = os.environ["ADDRESS"]
MODERN = os.environ["ERA"] == "2026-07-28"
INFO = {"name": "raw", "version": "1"}
session = {}


def request(method, headers, data=None):
    fields = {
        "Authorization": f"Bearer {os.environ['KEY']}",
        "Connection-Id": os.environ["CONNECTION"],
        "Accept": "application/json, text/event-stream" if method == "POST" else "text/event-stream",
        **headers,
    }
    if data is not None:
        fields["Content-Type"] = "application/json"
    return urllib.request.urlopen(urllib.request.Request(ADDRESS, data, fields, method=method), timeout=60)


def events(response):
    """Yields the id and the data of each event until the stream ends."""
    event, data = None, []
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text.startswith("id:"):
            event = text[3:].strip()
        elif text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
        elif text == "":
            if data and "".join(data):
                yield event, json.loads("\n".join(data))
            elif event is not None:
                yield event, None
            data = []


def ask(number, method, params, name=None):
    """Sends one request. Returns its status and its answer, by whichever stream the answer comes."""
    headers = dict(session)
    if MODERN:
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if name is not None:
            headers["Mcp-Name"] = name
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": INFO,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    try:
        response = request("POST", headers, body)
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())
    with response:
        if "Mcp-Session-Id" in response.headers:
            session["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        if not response.headers["Content-Type"].startswith("text/event-stream"):
            return response.status, json.loads(response.read())
        last = None
        for last, message in events(response):
            if message is not None and message.get("id") == number:
                return response.status, message
    # The stream broke off: the server repeats what is missing after the last event (2025-11-25).
    with request("GET", {**session, "Last-Event-ID": last}) as resumed:
        for _, message in events(resumed):
            if message is not None and message.get("id") == number:
                return resumed.status, {**message, "resumedAfter": last}
    raise AssertionError("the answer never came")


if MODERN:
    status, found = ask(1, "server/discover", {})
    assert status == 200 and "2026-07-28" in found["result"]["supportedVersions"], found
else:
    started = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    status, answer = ask(1, "initialize", started)
    assert status == 200, answer
    session["MCP-Protocol-Version"] = answer["result"]["protocolVersion"]

status, listed = ask(2, "tools/list", {})
assert status == 200, listed
call = {"name": "read_page", "arguments": {"id": "p1", "text": "Tee & \u00fc"}}
status, called = ask(3, "tools/call", call, "read_page")
assert status == 200, called
refused = ask(4, "tools/call", {"name": "delete_page", "arguments": {}}, "delete_page")
print(json.dumps({"tools": [tool["name"] for tool in listed["result"]["tools"]], "called": called, "refused": refused}))
