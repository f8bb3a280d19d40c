import type { FrontResponse } from "../../relay/client/incoming.ts";
import type { RouteAnswer } from "./routes.ts";

interface StreamedAnswer {
  readonly status: number;
  readonly stream: NonNullable<RouteAnswer["stream"]>;
  /** Has the response while it is open; undefined: the response has an end of its own. */
  readonly open: Set<{ destroy(): unknown }> | undefined;
}

/** Sends a response piece by piece; its headers are set. */
export async function sendStream(response: FrontResponse, { status, stream, open }: StreamedAnswer): Promise<void> {
  // The client may have left before the first piece.
  if (!response.destroyed) {
    open?.add(response);
    response.once("close", () => open?.delete(response));
    response.writeHead(status);
    response.flushHeaders();
  }
  await stream({
    write(text) {
      if (!response.destroyed) response.write(text);
    },
    isFull: () => response.writableNeedDrain,
  });
  response.end();
}
