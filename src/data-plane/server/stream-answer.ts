import type { FrontResponse } from "../../relay/client/incoming.ts";
import { EndlessResponse, type EndlessResponses } from "./endless-responses.ts";
import type { RouteAnswer } from "./routes.ts";

interface StreamedAnswer {
  readonly status: number;
  readonly stream: NonNullable<RouteAnswer["stream"]>;
  /** The response has no end of its own. */
  readonly isEndless: boolean;
  /** Has the responses without an end of their own while they are open. */
  readonly endless: EndlessResponses;
}

/** Sends a response piece by piece; its headers are set. */
export async function sendStream(response: FrontResponse, answer: StreamedAnswer): Promise<void> {
  const { status, stream, isEndless, endless } = answer;
  const open = new EndlessResponse(response);

  function cutAtStop(): void {
    if (response.destroyed || endless.has(open)) return;
    endless.add(open);
    response.once("close", () => endless.delete(open));
  }

  // The client may have left before the first piece.
  if (!response.destroyed) {
    if (isEndless) cutAtStop();
    response.writeHead(status);
    response.flushHeaders();
  }
  await stream({
    write(text) {
      if (!response.destroyed) response.write(text);
    },
    isFull: () => response.writableNeedDrain,
    cutAtStop,
  });
  response.end();
}
