import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { ResolveHost } from "../../../src/relay/egress.ts";
import type { PlayedAnswer } from "./fixture.ts";

/** A request as the provider received it. */
export interface PlayedRequest {
  readonly method: string;
  /** With the host that the caller named, as `https`. */
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Answers a request; undefined if it should not have come. */
export type PlayRequest = (request: PlayedRequest) => PlayedAnswer | undefined;

/** Plays every host of every provider on one loopback address, at the port that their real addresses have. */
export interface PlayedProvider {
  readonly resolve: ResolveHost;
  /** Requests since the last call of `play`. */
  readonly requests: readonly PlayedRequest[];
  play(answer: PlayRequest): void;
  close(): void;
}

export async function startPlayedProvider(): Promise<PlayedProvider> {
  // Any address of the loopback network: several processes may play at a time.
  const address = `127.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}.7`;
  let requests: PlayedRequest[] = [];
  let play: PlayRequest = () => undefined;
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const { method = "", headers, url = "" } = incoming;
    const request = {
      method,
      url: `https://${(headers.host ?? "").replace(/:443$/, "")}${url}`,
      headers,
      body: Buffer.concat(chunks).toString("utf8"),
    };
    requests.push(request);
    const answer = play(request);
    const { status = 200, headers: given = {}, body = "" } = answer ?? { status: 599, body: "nobody asked for this" };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const type = typeof body === "string" ? {} : { "content-type": "application/json" };
    outgoing.writeHead(status, { ...type, ...given }).end(text);
  });
  server.listen(443, address);
  await once(server, "listening");
  return {
    resolve: async () => [{ address, family: 4 }],
    get requests() {
      return requests;
    },
    play(answer) {
      requests = [];
      play = answer;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
