import type { Socket } from "node:net";
import type { Attachment } from "../../auth/attachment.ts";
import type { World } from "../../base/world.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import { asksForOtherMethod } from "../../core/access/requested-methods.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import { Integration_UseRecord } from "../../gen/latchkey/v1/integration_pb.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { secretsOf, withoutSecrets } from "./path-secrets.ts";

/**
 * Writes a log line for each use of a connection whose integration asks for it: after its credentials were found,
 * when the use is over. The store holds no such record: a durable write for each request would limit the proxy to the
 * speed of the disk. A log is also kept elsewhere, out of reach of the callers it describes.
 */
export interface UseRecords {
  begin(call: UseCall, used: UseContext): UseRecorder;
}

interface UseCall {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** The socket of a request for a tunnel. */
  readonly socket?: Socket;
}

interface UseContext {
  readonly live: LiveConnection;
  readonly caller: Caller;
  /** Time of the monotonic clock. */
  readonly since: number;
}

/** Collects facts about a use. */
export interface UseRecorder {
  /** The request may be sent. */
  noteTarget(where: UseTarget): void;
  /** The message to an MCP server was read. */
  noteMessage(message: RpcMessage): void;
  /** Another attempt was sent, with this many body bytes. */
  noteAttempt(bytes: number): void;
  /** More bytes of a streamed body were sent. */
  up(bytes: number): void;
  down(bytes: number): void;
  /** The socket is now a tunnel; the caller has already been sent this many provider bytes. */
  noteTunnel(early: number): void;
  noteCut(by: "caller" | "provider"): void;
}

interface UseTarget {
  readonly host: string;
  /** Precedes the path at the provider. */
  readonly basePath: string;
  /** The path as the caller wrote it, with its query. */
  readonly path: string;
  readonly attachment: Attachment;
  /** The caller's key. */
  readonly key: string;
}

export const isUseRecorded = ({ integration: { useRecord } }: LiveConnection): boolean =>
  useRecord === Integration_UseRecord.HOST || useRecord === Integration_UseRecord.PATH;

export function createUseRecords({ log }: Pick<World, "log">): UseRecords {
  return {
    begin({ request, response, socket }, { live, caller, since }) {
      const { connection, integration, credentials } = live;
      let host: string | undefined;
      let path: string | undefined;
      let basePath: string | undefined;
      let message: RpcMessage | undefined;
      let attempts = 0;
      let up = 0;
      let down = 0;
      let cut: "caller" | "provider" | undefined;
      let tunnel: { readonly read: number; readonly written: number } | undefined;

      // A tunnel is over when its socket closes; other uses when the response closes.
      (socket ?? response).once("close", () => {
        if (tunnel !== undefined && socket !== undefined) {
          up = socket.bytesRead - tunnel.read;
          down = socket.bytesWritten - tunnel.written;
        }
        log.info("a connection was used", {
          ...(caller.identity === undefined ? ofKey(caller) : ofIdentity(caller)),
          session: caller.accessSession?.id,
          environment: integration.environment,
          integration: integration.key,
          provider: integration.provider,
          connection: connection.ref?.id,
          credentials: credentials.kind.case ?? "none",
          method: request.method,
          ...(overridesMethod(request) && { overrides_method: true }),
          ...(message !== undefined && messageFields(message)),
          host,
          base_path: basePath || undefined,
          path,
          status: tunnel !== undefined || response.headersSent ? response.statusCode : undefined,
          ...outcome(),
          bytes_up: up,
          bytes_down: down,
          ms: Math.round(performance.now() - since),
          retries: Math.max(0, attempts - 1),
        });
      });

      /** Only responses that Latchkey makes itself have this header. */
      function outcome(): { readonly outcome: string; readonly reason?: unknown } {
        const reason = response.getHeader("latchkey-error");
        if (reason !== undefined) return { outcome: attempts === 0 ? "refused" : "failed", reason };
        if (cut !== undefined) return { outcome: `cut by ${cut}` };
        // An OPTIONS request whose Max-Forwards ended here.
        if (attempts === 0 && response.writableFinished) return { outcome: "answered here" };
        return { outcome: tunnel !== undefined || response.writableFinished ? "answered" : "cut by caller" };
      }

      return {
        noteTarget(where) {
          host = where.host;
          if (integration.useRecord !== Integration_UseRecord.PATH) return;
          path = shownPath(where);
          // Policies are tested with the whole path.
          basePath = where.basePath;
        },
        noteMessage(sent) {
          message = sent;
        },
        noteAttempt(bytes) {
          attempts += 1;
          up = bytes;
        },
        up(bytes) {
          up += bytes;
        },
        down(bytes) {
          down += bytes;
        },
        noteTunnel(early) {
          if (socket !== undefined) tunnel = { read: socket.bytesRead, written: socket.bytesWritten - early };
        },
        noteCut(by) {
          cut = by;
        },
      };
    },
  };
}

/** Names are the caller's: longer ones are not written. */
const maxNameLength = 255;

function messageFields({ method = "", name }: RpcMessage) {
  const isShort = (text: string | undefined) => text !== undefined && text.length <= maxNameLength;
  return {
    mcp_method: isShort(method) ? method : undefined,
    mcp_tool: method === "tools/call" && isShort(name) ? name : undefined,
  };
}

const ofKey = ({ keyId: key }: Caller) => ({ key });
const ofIdentity = ({ keyId: identity }: Caller) => ({ identity });
const overridesMethod = ({ method = "GET", url = "", rawHeaders }: FrontRequest): boolean =>
  asksForOtherMethod({ method, path: url, rawHeaders });

/** Returns the path without its query and without known secrets. */
function shownPath({ path, attachment, key }: UseTarget): string {
  const [bare = ""] = path.split("?", 1);
  return withoutSecrets(bare, [key, ...secretsOf(attachment)]);
}
