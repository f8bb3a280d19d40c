import { type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ImportMistake, readImportJson } from "../../../core/dialect/import-line.ts";
import {
  ConnectionImportSchema,
  type StreamImportConnectionsRequestSchema,
  type StreamImportConnectionsResponse,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { NdjsonLine } from "../../terminal/ndjson.ts";

/** Result of a line. */
export interface LineOutcome {
  readonly line: number;
  readonly end: number;
  readonly outcome: "created" | "replaced" | LineFailure;
  /** Unknown fields of the line. */
  readonly ignored: readonly string[];
}

export interface LineFailure {
  readonly code: string;
  readonly message: string;
  readonly violations: readonly { readonly path: string; readonly message: string }[];
}

type ImportRequest = MessageInitShape<typeof StreamImportConnectionsRequestSchema>;

interface ImportOptions {
  readonly lines: AsyncIterable<NdjsonLine>;
  /** Sends connections and yields a result for each, in order: the control plane's StreamImportConnections. */
  readonly send: (requests: AsyncIterable<ImportRequest>) => AsyncIterable<StreamImportConnectionsResponse>;
  /** Maximum number of lines read but without a result; limits memory. */
  readonly maxInFlight: number;
  /** Environment of lines that name none. */
  readonly environment: string;
  /** Runs the scripts that follow the creation of a connection. */
  readonly runHooks?: boolean;
  /** Called once for each line, in file order, as soon as its result is certain. */
  readonly settle: (outcome: LineOutcome) => void;
}

/** State of a stream that broke. */
export interface InterruptedImport {
  /** Lines that were sent but not answered: each may or may not be imported. */
  readonly sent: number;
  /** Unanswered lines without a `connection_id`: sent again, each would create another connection. */
  readonly nameless: number;
}

/** The stream ended before every line had a result. Earlier results stay valid. */
export class BrokenStream extends Error {
  override readonly name = "BrokenStream";
  readonly unsettled: InterruptedImport;

  constructor(cause: unknown, unsettled: InterruptedImport) {
    super("the import broke off", { cause });
    this.unsettled = unsettled;
  }
}

/** A line that waits for its response or, if it already failed locally, for the lines before it. */
interface QueuedLine {
  readonly line: number;
  readonly end: number;
  readonly ignored: readonly string[];
  readonly nameless: boolean;
  readonly failure: LineFailure | undefined;
}

/** Sends every line that holds a connection, in order and with bounded memory. Throws BrokenStream. */
export async function importLines(options: ImportOptions): Promise<void> {
  const { lines, send, maxInFlight, environment, runHooks = false, settle } = options;
  const waiting: QueuedLine[] = [];
  const room = createBell();
  let answered = 0n;
  let ended = false;
  let allRead = false;
  let readError: unknown;

  const settleFailed = () => {
    for (let head = waiting[0]; head?.failure !== undefined; head = waiting[0]) {
      waiting.shift();
      settle({ ...head, outcome: head.failure });
    }
  };

  async function* requests(): AsyncGenerator<ImportRequest> {
    try {
      for await (const line of lines) {
        while (waiting.length >= maxInFlight && !ended) await room.rung();
        if (ended) return;
        const { request, ...entry } = prepare(line, environment);
        waiting.push(entry);
        if (request !== undefined) yield { ...request, runHooks };
        else settleFailed();
      }
      allRead = true;
    } catch (error) {
      // Reported after the lines sent so far are answered.
      readError = error;
    }
  }

  try {
    for await (const { index, result } of send(requests())) {
      const entry = waiting.shift();
      if (entry === undefined || result === undefined || index !== answered) {
        throw new Error("the answers do not match the items that were sent");
      }
      answered += 1n;
      settle({ ...entry, outcome: result.problem ?? (result.created ? "created" : "replaced") });
      settleFailed();
      room.ring();
    }
    if (waiting.length > 0 || (!allRead && readError === undefined)) {
      throw new Error("the control plane ended the stream early");
    }
  } catch (cause) {
    throw new BrokenStream(cause, unsettledOf(waiting));
  } finally {
    ended = true;
    room.ring();
  }
  if (readError !== undefined) throw readError;
}

function unsettledOf(waiting: readonly QueuedLine[]): InterruptedImport {
  const sent = waiting.filter(({ failure }) => failure === undefined);
  return { sent: sent.length, nameless: sent.filter(({ nameless }) => nameless).length };
}

/** The control plane's message limit is 4 MiB; a larger message would end the stream for all later lines as well. */
const maxMessageBytes = 4 * 1024 * 1024 - 64;
/** Protobuf needs at most eleven bytes for two of JSON (`0,`), so shorter lines need no measuring. */
const surelySmallBytes = 512 * 1024;

/** Returns the request for a line, if any, and what to remember until its response. */
function prepare(
  { line, end, content }: NdjsonLine,
  environment: string,
): QueuedLine & { readonly request: ImportRequest | undefined } {
  const failed = (failure: LineFailure) => ({ line, end, ignored: [], nameless: false, failure, request: undefined });
  if ("wrong" in content) return failed({ ...content.wrong, violations: [] });
  try {
    if (content.inexact.length > 0) throw new ImportMistake(content.inexact);
    const { connection, ignored } = readImportJson(content.value);
    connection.environment ||= environment;
    if (content.bytes > surelySmallBytes && toBinary(ConnectionImportSchema, connection).length > maxMessageBytes) {
      return failed({
        code: "payload_too_large",
        message: "the connection is larger than 4 MiB as a message",
        violations: [],
      });
    }
    return { line, end, ignored, nameless: connection.id === "", failure: undefined, request: { connection } };
  } catch (error) {
    if (!(error instanceof ImportMistake)) throw error;
    const violations = error.mistakes.map(({ path, message }) => ({ path: path.join("."), message }));
    return failed({ code: "invalid_body", message: error.message, violations });
  }
}

/** Creates a signal that wakes a waiter. A ring without a waiter has no effect. */
function createBell() {
  let wake: (() => void) | undefined;
  return {
    ring: () => wake?.(),
    rung: () => new Promise<void>((resolve) => (wake = resolve)),
  };
}
