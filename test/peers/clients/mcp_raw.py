"""Uses the MCP endpoint over raw HTTP, as the specification says, with nothing but the standard library.

Lists the tools, calls one whose account is missing, shows the link, and gets the result once the account is connected.
Writes a line of JSON for each step.
"""

import json
import os
import sys
import urllib.error
import urllib.request

ADDRESS = os.environ["ADDRESS"]
KEY = os.environ["KEY"]
CALL = {"name": os.environ["TOOL"], "arguments": json.loads(os.environ["ARGUMENTS"])}
CAPABILITIES = {"elicitation": {"url": {}}}
INFO = {"name": "raw", "version": "1"}
ids = iter(range(1, 100))


def tell(**step):
    print(json.dumps(step), flush=True)


def post(message, headers):
    """Sends one message. Returns the status, the headers and the JSON of the response."""
    request = urllib.request.Request(
        ADDRESS,
        data=json.dumps({"jsonrpc": "2.0", **message}).encode(),
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            body = response.read()
            return response.status, response.headers, json.loads(body) if body else None
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, json.loads(refused.read())


def modern(method, params, name=None):
    """2026-07-28: each request says everything, and repeats its method and name in headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": INFO,
        "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    message = {"id": next(ids), "method": method, "params": {**params, "_meta": meta}}
    status, _, body = post(message, headers)
    assert body["id"] == message["id"], body
    assert status == 200, (status, body)
    return body["result"]


def use_modern():
    found = modern("server/discover", {})
    assert "2026-07-28" in found["supportedVersions"] and "tools" in found["capabilities"], found
    listed = modern("tools/list", {})
    assert listed["ttlMs"] >= 0 and listed["cacheScope"] in ("public", "private"), listed
    tell(tools=[tool["name"] for tool in listed["tools"]])

    wrong = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    status, _, body = post({"id": 50, "method": "server/discover", "params": {"_meta": meta}}, wrong)
    assert (status, body["error"]["code"]) == (400, -32020), (status, body)

    params = dict(CALL)
    result = modern("tools/call", params, CALL["name"])
    while result["resultType"] == "input_required":
        (key, asked), = result["inputRequests"].items()
        assert asked["method"] == "elicitation/create" and asked["params"]["mode"] == "url", asked
        tell(link=asked["params"]["url"])
        sys.stdin.readline()
        params = {**CALL, "inputResponses": {key: {"action": "accept"}}}
        if "requestState" in result:
            params["requestState"] = result["requestState"]
        result = modern("tools/call", params, CALL["name"])
    tell(result=result)


def use_older():
    """2025-11-25: `initialize` comes first, and its session goes with every later request."""
    started = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": INFO}
    status, headers, body = post({"id": next(ids), "method": "initialize", "params": started}, {})
    assert status == 200 and body["result"]["protocolVersion"] == "2025-11-25", body
    session = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": headers["Mcp-Session-Id"]}
    status, _, body = post({"method": "notifications/initialized"}, session)
    assert (status, body) == (202, None), (status, body)

    def ask(method, params):
        message = {"id": next(ids), "method": method, "params": params}
        status, _, body = post(message, session)
        assert status == 200 and body["id"] == message["id"], (status, body)
        return body

    tell(tools=[tool["name"] for tool in ask("tools/list", {})["result"]["tools"]])
    answer = ask("tools/call", CALL)
    if "error" in answer:
        assert answer["error"]["code"] == -32042, answer
        (asked,) = answer["error"]["data"]["elicitations"]
        assert asked["mode"] == "url" and asked["elicitationId"], asked
        tell(link=asked["url"])
        sys.stdin.readline()
        answer = ask("tools/call", CALL)
    tell(result=answer["result"])


(use_modern if os.environ["ERA"] == "modern" else use_older)()
