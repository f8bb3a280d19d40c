import type { FrontResponse } from "../../relay/client/incoming.ts";
import type { RouteAnswer } from "./routes.ts";

/** Sends a response piece by piece; its headers are set. */
export async function sendStream(
  response: FrontResponse,
  status: number,
  stream: NonNullable<RouteAnswer["stream"]>,
): Promise<void> {
  response.writeHead(status);
  response.flushHeaders();
  await stream({
    write(text) {
      if (!response.destroyed) response.write(text);
    },
    isFull: () => response.writableNeedDrain,
    onClose: (run) => response.once("close", run),
  });
  response.end();
}
