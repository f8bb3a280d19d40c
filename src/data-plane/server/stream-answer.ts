import type { FrontResponse } from "../../relay/client/incoming.ts";
import type { RouteAnswer } from "./routes.ts";

/** Sends a response piece by piece; its headers are set. */
export async function sendStream(
  response: FrontResponse,
  status: number,
  stream: NonNullable<RouteAnswer["stream"]>,
): Promise<void> {
  // The client may have left before the first piece.
  if (!response.destroyed) {
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
