import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createAuthority, pem } from "../cases/control-plane/certificates.ts";
import { startProxied } from "../support/peers/provider.ts";
import { freePort } from "../support/postgres/postgres.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { call } from "../support/wire/proxy-call.ts";

/** Providers whose HTTP/2 is not Node's: each has its own HPACK encoder, windows and frame sizes. */

async function startProgram(command: string, args: readonly string[], folder: string): Promise<ChildProcess> {
  const child = spawn(command, args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "spawn");
  return child;
}

/** Returns the port, which the program prints in a line. */
async function portOf(child: ChildProcess): Promise<number> {
  let text = "";
  for await (const chunk of child.stdout ?? []) {
    text += chunk;
    const port = /port (\d+)\n/.exec(text)?.[1];
    if (port !== undefined) return Number(port);
  }
  throw new Error(`the program ended: ${text}`);
}

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

const priorKnowledge = (port: number) => ({
  provider: { proxy: { baseUrl: `https://127.0.0.1:${port}`, http2Only: true } },
});

/** Many small responses in both directions at once, and large ones. */
async function exchange({ data, proxyHeaders: headers }: Awaited<ReturnType<typeof startProxied>>): Promise<void> {
  const small = await Promise.all(
    Array.from({ length: 60 }, (_, i) => {
      const body = `${i}-`.repeat(i * 40);
      return call(`${data}/proxy/echo`, { method: "POST", headers: { ...headers, "x-number": String(i) }, body }).then(
        (answer) => [answer.status, answer.outcome, answer.body === body],
      );
    }),
  );
  expect(small).toEqual(small.map(() => [200, "ended", true]));
  const large = Buffer.alloc(3_000_000, "0123456789");
  const answers = await Promise.all(
    [1, 2].map(() => call(`${data}/proxy/echo`, { method: "POST", headers, body: large })),
  );
  for (const { status, outcome, body } of answers) {
    expect([status, outcome]).toEqual([200, "ended"]);
    expect(body === large.toString("latin1")).toBe(true);
  }
}

it.skipIf(lacks("nghttpd"))("nghttpd gets every request, and its responses arrive whole", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "files"));
  const large = "x".repeat(2_000_000);
  await writeFile(join(folder, "files/large"), large);
  await writeFile(join(folder, "files/small"), "hello");
  const port = await freePort();
  const args = ["--no-tls", "-a", "127.0.0.1", "-d", "files", "--echo-upload", String(port)];
  await startProgram("nghttpd", args, folder);
  await expect.poll(() => isListening(port)).toBe(true);
  const running = await startProxied(port, priorKnowledge(port));
  const { data, proxyHeaders: headers } = running;
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => call(`${data}/proxy/${i % 5 === 0 ? "large" : "small"}`, { headers })),
  );
  expect(answers.map(({ status, outcome }) => `${status} ${outcome}`)).toEqual(answers.map(() => "200 ended"));
  expect(answers.every(({ body }, i) => body === (i % 5 === 0 ? large : "hello"))).toBe(true);
  expect((await call(`${data}/proxy/missing`, { headers })).status).toBe(404);
  await exchange(running);
});

const pythonServer = `
import socket, threading
import h2.connection, h2.config, h2.events

def serve(sock):
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    connection.initiate_connection()
    sock.sendall(connection.data_to_send())
    bodies, out, heads = {}, {}, {}
    def pump():
        for stream, rest in list(out.items()):
            while rest:
                room = min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size, 5000)
                if room <= 0: break
                connection.send_data(stream, rest[:room], pad_length=room % 7)if room > 8 and connection.local_flow_control_window(stream) > room + 8 else connection.send_data(stream, rest[:room])
                rest = rest[room:]
            out[stream] = rest
            if not rest:
                connection.send_headers(stream, [("x-length", str(len(bodies[stream])))], end_stream=True)
                del out[stream]
    while True:
        data = sock.recv(65536)
        if not data: return
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                bodies[event.stream_id] = b""
                heads[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                bodies[event.stream_id] += event.data
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                number = heads[event.stream_id].get("x-number", "")
                connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/plain"), ("x-number", number)])
                out[event.stream_id] = bodies[event.stream_id]
            pump()
        sock.sendall(connection.data_to_send())

listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
`;

it.skipIf(lacks("pythonH2"))("python3-h2 gets bodies, and its padded frames and trailers arrive", async () => {
  const child = await startProgram("/usr/bin/python3", ["-c", pythonServer], await temporaryFolder());
  const port = await portOf(child);
  const running = await startProxied(port, priorKnowledge(port));
  await exchange(running);
  const { trailers } = await call(`${running.data}/proxy/echo`, {
    method: "POST",
    headers: running.proxyHeaders,
    body: "abc",
  });
  expect(trailers).toEqual(["x-length", "3"]);
});

const goServer = `
package main
import ("fmt"; "io"; "net"; "net/http")
func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil { panic(err) }
	fmt.Printf("port %d\\n", listener.Addr().(*net.TCPAddr).Port)
	handle := func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 { w.WriteHeader(505); return }
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Number", r.Header.Get("X-Number"))
		w.Write(body)
	}
	panic(http.ServeTLS(listener, http.HandlerFunc(handle), "cert.pem", "key.pem"))
}
`;

it.skipIf(lacks("go") || lacks("openssl"))("Go's server gets bodies, over TLS", { timeout: 120_000 }, async () => {
  const folder = await temporaryFolder();
  const authority = createAuthority(folder, "authority");
  const own = authority.issue("here", { names: "IP:127.0.0.1" });
  await writeFile(join(folder, "cert.pem"), pem(own.cert));
  await writeFile(join(folder, "key.pem"), pem(own.key));
  await writeFile(join(folder, "main.go"), goServer);
  const building = spawn("go", ["build", "-o", "server", "main.go"], { cwd: folder, stdio: "inherit" });
  expect((await once(building, "exit"))[0]).toBe(0);
  const port = await portOf(await startProgram("./server", [], folder));
  const running = await startProxied(port, {
    isTls: true,
    provider: { proxy: { baseUrl: `https://127.0.0.1:${port}`, http2Only: true } },
    files: { "/ca.pem": pem(authority.cert).toString() },
    env: { LATCHKEY_PROVIDER_CA: "/ca.pem" },
  });
  await exchange(running);
});
