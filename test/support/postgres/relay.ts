import { connect, createServer, type Socket } from "node:net";

/** The failure that the relay causes at the chosen moment, until it is repaired. */
export type RelayFault =
  /** Connections break, and none can be made. */
  | "cut"
  /** Forwards nothing any more, in either direction. */
  | "freeze"
  /** Refuses new connections with "too many clients"; open ones stay. */
  | "full";

export interface RelayPlan {
  readonly fault: RelayFault;
  /** The fault begins with this connection, counted from 1. */
  readonly atConnection?: number;
  /** Or at this client message, counted over all connections. */
  readonly atMessage?: number;
}

/** A network between a client and PostgreSQL that fails at a chosen message. */
export interface Relay {
  readonly port: number;
  /** Whether the failure has started. */
  hasFailed(): boolean;
  readonly connections: number;
  readonly messages: number;
  mend(): void;
  close(): Promise<void>;
}

/** PostgreSQL's answer above `max_connections`. */
function tooManyClients(): Buffer {
  const fields = ["SFATAL", "VFATAL", "C53300", "Msorry, too many clients already"];
  const body = Buffer.concat([...fields.map((field) => Buffer.from(`${field}\0`)), Buffer.from("\0")]);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

export async function openRelay(target: number, { fault, atConnection, atMessage }: RelayPlan): Promise<Relay> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let connections = 0;
  let messages = 0;
  let state: "before" | "failed" | "mended" = "before";

  function fail(): void {
    if (state !== "before") return;
    state = "failed";
    for (const [near, far] of pairs) {
      if (fault === "cut") near.destroy();
      if (fault === "freeze") for (const socket of [near, far]) socket.pause();
    }
  }

  const server = createServer((near) => {
    connections += 1;
    if (connections === atConnection) fail();
    near.on("error", () => {});
    if (state === "failed" && fault === "cut") {
      near.destroy();
      return;
    }
    if (state === "failed" && fault === "full") {
      near.once("data", () => near.end(tooManyClients()));
      return;
    }
    const far = connect(target, "127.0.0.1");
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    far.on("error", end).on("close", end);
    near.on("close", end);
    near.on("data", (chunk) => {
      messages += 1;
      if (messages === atMessage) fail();
      if (!near.destroyed) far.write(chunk);
    });
    far.on("data", (chunk) => near.write(chunk));
    if (state === "failed" && fault === "freeze") for (const socket of pair) socket.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    hasFailed: () => state !== "before",
    get connections() {
      return connections;
    },
    get messages() {
      return messages;
    },
    mend() {
      state = "mended";
      for (const pair of pairs) for (const socket of pair) socket.resume();
    },
    async close() {
      for (const [near, far] of pairs) {
        near.destroy();
        far.destroy();
      }
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
