import { isGrpc } from "../../core/outgoing/grpc.ts";
import type { ProviderCall } from "./provider-call.ts";
import type { ProxyCall, SessionStream, SessionStreams } from "./proxy-call.ts";

interface FollowedStream extends SessionStream {
  endedAtMs: number | undefined;
}

const everyMs = 250;
/** For so long, a request in progress may finish after its session has ended. */
const graceMs = 60_000;

/** Creates the cutter of streams, for all requests of a process. */
export function createSessionStreams(): SessionStreams {
  const streams = new Map<object, FollowedStream>();
  let timer: NodeJS.Timeout | undefined;

  function sweep(): void {
    const now = performance.now();
    for (const [call, stream] of streams) {
      if (stream.caller.accessSession?.isOver() !== true) continue;
      stream.endedAtMs ??= now;
      if (!stream.isEndless && now - stream.endedAtMs < graceMs) continue;
      streams.delete(call);
      stream.cut();
    }
    if (streams.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function add(call: object, stream: SessionStream): void {
    streams.set(call, { ...stream, endedAtMs: streams.get(call)?.endedAtMs });
    timer ??= setInterval(sweep, everyMs).unref();
  }

  function follow(call: ProxyCall, { caller }: Pick<ProviderCall, "caller">, isEndless: boolean): void {
    if (caller.accessSession === undefined) return;
    // A gRPC call may be a stream.
    const cutsAtOnce = isEndless || isGrpc(call.context.request.headers["content-type"]);
    add(call, { caller, isEndless: cutsAtOnce, cut: () => call.cut() });
  }

  return {
    follow: (call, ready) => follow(call, ready, false),
    begin(call, ready, isEndless) {
      call.beginAnswer(isEndless);
      follow(call, ready, isEndless);
    },
    add,
    delete(call) {
      if (streams.size > 0) streams.delete(call);
    },
  };
}
