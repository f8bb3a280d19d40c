import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import { EdgeAuthoritiesSchema } from "../../../gen/latchkey/v1/edge_pb.ts";
import type { Authorities } from "../../authority/authorities.ts";
import type { EdgeStream } from "../edge-stream.ts";

/** The authorities of the forward proxy, for edges that have one. The first of them has the authority made. */
export interface EdgeAuthorities {
  /** Sends the authorities, and again after each rotation. */
  resume(stream: EdgeStream): Promise<void>;
  dropAll(stream: EdgeStream): void;
  close(): void;
}

interface EdgeAuthoritiesOptions {
  readonly authorities: Pick<Authorities, "start" | "known" | "listen">;
  readonly onPush: () => void;
  readonly world: World;
}

const retryMs = 1_000;

export function createEdgeAuthorities({ authorities, onPush, world }: EdgeAuthoritiesOptions): EdgeAuthorities {
  const streams = new Set<EdgeStream>();
  let retry: NodeJS.Timeout | undefined;

  function send(stream: EdgeStream): void {
    const value = create(EdgeAuthoritiesSchema, { certificates: [...authorities.known()] });
    stream.outbox.put("authorities", { case: "authorities", value });
    onPush();
  }

  const sendAll = () => {
    for (const stream of streams) send(stream);
  };
  const stop = authorities.listen(sendAll);

  /** The store is away: edges go on without, and get the authorities later. */
  function startLater(err: unknown): void {
    world.log.debug("could not read the certificate authority for edges; will retry", { err });
    retry ??= setTimeout(() => {
      retry = undefined;
      authorities.start().then(sendAll, startLater);
    }, retryMs).unref();
  }

  return {
    async resume(stream) {
      if (!stream.edge.hasForwardProxy) return;
      streams.add(stream);
      try {
        await authorities.start();
        send(stream);
      } catch (error) {
        startLater(error);
      }
    },
    dropAll: (stream) => void streams.delete(stream),
    close() {
      stop();
      clearTimeout(retry);
    },
  };
}
