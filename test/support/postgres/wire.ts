import { connect, createServer, type Socket } from "node:net";

/** The network between a store and its server, or an edge and its broker, to be tampered with. */
export interface Wire {
  readonly port: number;
  /** Connections break, and none can be made. */
  cut(): void;
  /** Forwards nothing any more, in either direction. */
  freeze(): void;
  /** Forwards requests, drops the answers, and breaks the connection. */
  loseAnswers(): void;
  /** Holds back messages to the server, for longer than their sender lives. */
  hold(): void;
  mend(): void;
  /** Delivers the held messages, late. */
  deliver(): void;
  close(): Promise<void>;
}

export async function openWire(target: number, host = "127.0.0.1"): Promise<Wire> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let state: "whole" | "cut" | "frozen" | "deaf" | "held" = "whole";
  const heldBack: (() => void)[] = [];
  const server = createServer((near) => {
    if (state === "cut") {
      near.destroy();
      return;
    }
    const far = connect(target, host);
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    let isHeld = false;
    far.on("error", end).on("close", end);
    near.on("error", () => {}).on("close", () => !isHeld && end());
    near.on("data", (chunk) => {
      isHeld ||= state === "held";
      if (isHeld) heldBack.push(() => far.write(chunk));
      else far.write(chunk);
    });
    far.on("data", (chunk) => {
      if (state === "deaf") near.destroy();
      else near.write(chunk);
    });
    if (state === "frozen") for (const socket of pair) socket.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const destroyAll = () => {
    for (const [near] of pairs) near.destroy();
  };
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    cut() {
      state = "cut";
      destroyAll();
    },
    freeze() {
      state = "frozen";
      for (const pair of pairs) for (const socket of pair) socket.pause();
    },
    hold() {
      state = "held";
    },
    deliver() {
      for (const send of heldBack.splice(0)) send();
    },
    loseAnswers() {
      state = "deaf";
    },
    mend() {
      state = "whole";
      for (const pair of pairs) for (const socket of pair) socket.resume();
    },
    async close() {
      destroyAll();
      for (const [, far] of pairs) far.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
