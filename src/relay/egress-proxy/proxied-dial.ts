import type { Socket } from "node:net";
import tls from "node:tls";
import { failureOf } from "../dial-failure.ts";
import { type Dial, type DialListener, type DialTarget, reportReady, tlsOptionsOf } from "../dialing.ts";
import { RelayFailure } from "../failure.ts";
import { connectHead, connectTarget, readConnectAnswer } from "./connect-head.ts";
import type { EgressProxy, EgressRoute, HopOutcome } from "./egress-proxy.ts";
import { codeOf, unreachableText } from "./hop-trouble.ts";
import { readInto } from "./read-into.ts";

/**
 * Opens a connection to an origin through the egress proxy: to the proxy, then CONNECT, then TLS with the origin. A
 * failure on the way ends the attempt; nothing is ever dialed directly instead.
 */
export function dialThroughProxy({ proxy, addresses }: EgressRoute, target: DialTarget, listener: DialListener): Dial {
  const { origin } = target;
  // Servers of HTTP/2 without TLS send their settings at once. TLS and HTTP/1.1 servers wait for the client.
  const speaksFirst = origin.scheme === "http" && target.protocols?.includes("h2") === true;
  let current: Dial | undefined;
  let given: RelayFailure | undefined;
  const fail = (failure: RelayFailure) => listener.onFailed(failure);

  function begin(host: string): void {
    if (given !== undefined) fail(given);
    else current = openHop({ proxy, host, port: origin.port, speaksFirst, onFailed: fail, onOpen: enter });
  }

  /** The proxy has connected the hop to the origin. */
  function enter(hop: Socket): void {
    if (origin.scheme === "http") {
      listener.onReady(withReads(hop));
      return;
    }
    const socket = tls.connect({ ...tlsOptionsOf(target), host: origin.host, socket: hop });
    current = { giveUp: (failure) => void socket.destroy(failure) };
    reportReady(socket, origin, {
      onReady: (ready) => listener.onReady(withReads(ready)),
      onFailed: fail,
      onTicket: (ticket) => listener.onTicket(ticket),
    });
  }

  const withReads = (socket: Socket) => (target.onread === undefined ? socket : readInto(socket, target.onread));

  // In a later tick, as every other callback of a dial.
  const checked = addresses?.() ?? Promise.resolve([]);
  checked.then(
    ([first]) => begin(proxy.resolution === "pinned" && first !== undefined ? first.address : origin.host),
    (error: Error) => fail(given ?? failureOf(error, false)),
  );
  return {
    giveUp(failure) {
      given ??= failure;
      current?.giveUp(failure);
    },
  };
}

interface HopRequest {
  readonly proxy: EgressProxy;
  readonly host: string;
  readonly port: number;
  /** The origin may send bytes before it receives any. */
  readonly speaksFirst: boolean;
  readonly onOpen: (hop: Socket) => void;
  readonly onFailed: (failure: RelayFailure) => void;
}

/** Opens a connection to the proxy and asks it for one to the origin. */
function openHop({ proxy, host, port, speaksFirst, onOpen, onFailed }: HopRequest): Dial {
  const { socket, readyEvent } = proxy.connect();
  const place = connectTarget({ host, port });
  let failure: RelayFailure | undefined;
  let isReady = false;
  let received: Buffer = Buffer.alloc(0);

  const failed = (outcome: HopOutcome, kind: RelayFailure["kind"], message: string, options: ErrorOptions = {}) => {
    if (failure !== undefined) return;
    failure = new RelayFailure(kind, message, options);
    proxy.note(outcome, message);
    socket.destroy();
  };
  const onError = (error: Error) => {
    const [outcome, message] = isReady
      ? (["no_answer", `the egress proxy ended the connection: ${codeOf(error)}`] as const)
      : (["unreachable", unreachableText(error)] as const);
    failed(outcome, "egress_proxy", message, { cause: error });
  };
  const onClose = () => {
    failed("no_answer", "egress_proxy", "the egress proxy ended the connection without an answer");
    onFailed(failure ?? new RelayFailure("egress_proxy", "no answer of the egress proxy"));
  };
  const onReadable = () => {
    for (let bytes = socket.read(); bytes !== null; bytes = socket.read()) {
      received = received.length === 0 ? bytes : Buffer.concat([received, bytes]);
    }
    if (failure === undefined) readAnswer();
  };

  function readAnswer(): void {
    const answer = readConnectAnswer(received);
    if (answer === undefined) return;
    if (answer === "malformed") {
      failed("no_answer", "egress_proxy", "the egress proxy's answer to CONNECT is not valid HTTP");
      return;
    }
    const { status, headBytes } = answer;
    if (status >= 300) {
      failed(...refusalOf(status, place));
      return;
    }
    const rest = received.subarray(headBytes);
    // These bytes would be taken for the answer to a request that was not sent yet.
    if (rest.length > 0 && !speaksFirst) {
      failed("no_answer", "egress_proxy", "the egress proxy sent more than its answer to CONNECT");
      return;
    }
    proxy.note("opened", "");
    socket.off("readable", onReadable).off("close", onClose);
    if (rest.length > 0) socket.unshift(rest);
    onOpen(socket);
    // Errors now reach the origin's socket; for an origin without TLS, this is that socket, which has listeners.
    socket.off("error", onError).on("error", () => {});
  }

  socket.on("error", onError).once("close", onClose);
  socket.once(readyEvent, () => {
    isReady = true;
    socket.on("readable", onReadable);
    socket.write(connectHead({ host, port, authorization: proxy.authorization }));
  });
  return {
    giveUp(given) {
      // The time is up while the proxy is being waited for, and not the origin.
      if (given.kind === "connect_timeout") {
        const what = isReady ? `did not answer CONNECT ${place} in time` : "did not accept a connection in time";
        failed(isReady ? "no_answer" : "unreachable", "egress_proxy", `the egress proxy ${what}`);
      } else {
        failure ??= given;
        socket.destroy();
      }
    },
  };
}

function refusalOf(status: number, place: string): [HopOutcome, RelayFailure["kind"], string] {
  if (status === 407) {
    return ["unauthorized", "egress_proxy", "the egress proxy does not accept Latchkey's user and password (407)"];
  }
  if (status === 504) return ["failed", "connect_timeout", `the egress proxy could not reach ${place} in time (504)`];
  if (status >= 500) return ["failed", "unreachable", `the egress proxy could not reach ${place} (${status})`];
  return ["refused", "egress_refused", `the egress proxy refuses connections to ${place} (${status})`];
}
