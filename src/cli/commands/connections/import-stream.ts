import { type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ImportMistake, readImportJson } from "../../../core/dialect/import-line.ts";
import {
  ConnectionImportSchema,
  type StreamImportConnectionsRequestSchema,
  type StreamImportConnectionsResponse,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { NdjsonLine } from "../../terminal/ndjson.ts";

/** What became of one line. */
export interface LineOutcome {
  readonly line: number;
  readonly end: number;
  readonly fate: "created" | "replaced" | LineFailure;
  /** Fields of the line that nobody asked for. */
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
  /** Sends connections and hears of each, in their order: the control plane's StreamImportConnections. */
  readonly send: (requests: AsyncIterable<ImportRequest>) => AsyncIterable<StreamImportConnectionsResponse>;
  /** Lines that may be read and not yet settled: what bounds memory. */
  readonly maxInFlight: number;
  /** For lines that name no environment of their own. */
  readonly environment: string;
  /** What scripts have to do with a connection that is made is done for these, too. */
  readonly runHooks?: boolean;
  /** Called once for each line, in the order of the file, as soon as its fate is certain. */
  readonly settle: (outcome: LineOutcome) => void;
}

/** How far a stream had come when it broke. */
export interface InterruptedImport {
  /** Lines that were sent and never answered: each may or may not be imported. */
  readonly sent: number;
  /** Of these, those without a `connection_id`: sent once more, they would become another connection. */
  readonly nameless: number;
}

/** The stream ended before every line was settled. What had been settled stays so. */
export class BrokenStream extends Error {
  override readonly name = "BrokenStream";
  readonly unsettled: InterruptedImport;

  constructor(cause: unknown, unsettled: InterruptedImport) {
    super("the import broke off", { cause });
    this.unsettled = unsettled;
  }
}

/** A line that waits: for its answer, or, when it failed here already, for those before it. */
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
      settle({ ...head, fate: head.failure });
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
      // What was sent so far is answered before this is told.
      readError = error;
    }
  }

  try {
    for await (const { index, result } of send(requests())) {
      const entry = waiting.shift();
      if (entry === undefined || result === undefined || index !== answered) {
        throw new Error("the answers do not fit what was sent");
      }
      answered += 1n;
      settle({ ...entry, fate: result.problem ?? (result.created ? "created" : "replaced") });
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

/** The control plane's largest message is 4 MiB; a longer one would end the stream, and with it every line behind. */
const maxMessageBytes = 4 * 1024 * 1024 - 64;
/** Protobuf needs at most eleven bytes for two of JSON (`0,`), so that shorter lines need not be measured. */
const surelySmallBytes = 512 * 1024;

/** What is sent for a line, if anything, and what is remembered of it until its answer. */
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

/** Wakes whoever waits for it. A ring that no one waits for is forgotten. */
function createBell() {
  let wake: (() => void) | undefined;
  return {
    ring: () => wake?.(),
    rung: () => new Promise<void>((resolve) => (wake = resolve)),
  };
}
