import { once } from "node:events";
import { type AddressInfo, createServer, isIP, type Socket } from "node:net";
import tls from "node:tls";
import { onTestFinished } from "vitest";
import { sendConnect } from "./forward-proxied.ts";

interface TunnelPortOptions {
  /** Address of the forward proxy. */
  readonly proxy: string;
  /** `host:port` that every tunnel is for. */
  readonly authority: string;
  /** The certificates of the forward proxy, PEM. */
  readonly ca: string;
  readonly protocol: "http/1.1" | "h2";
  /** Default: the key of the environment. */
  readonly authorization?: string;
}

/**
 * Starts a port whose connections come out inside of TLS in a tunnel of the forward proxy, byte for byte: so whatever
 * is written for a listener without TLS can be sent through a tunnel. Returns the port's address.
 */
export async function startTunnelPort(options: TunnelPortOptions): Promise<string> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    open.add(client);
    client.on("error", () => {}).once("close", () => open.delete(client));
    client.pause();
    join(client, options).catch(() => client.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function join(client: Socket, options: TunnelPortOptions): Promise<void> {
  const { proxy, authority, ca, protocol, authorization } = options;
  const { socket, status, text } = await sendConnect(proxy, authority, { authorization });
  if (status !== 200) {
    socket.destroy();
    // What the client has sent is dropped: unread, it would keep the connection from closing.
    client.resume().end(text);
    return;
  }
  const host = authority.replace(/:\d+$/, "");
  const name = isIP(host) === 0 ? { servername: host } : { host };
  const secure = tls.connect({ socket, ca, ...name, ALPNProtocols: [protocol] });
  secure.on("error", () => {});
  client.once("close", () => socket.destroy());
  await once(secure, "secureConnect");
  secure.once("close", () => client.destroySoon());
  client.pipe(secure);
  secure.pipe(client);
}
