import { type DescMessage, fromBinary, type Message, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { envelopesFor } from "../../../base/message-bytes.ts";
import type { Broker } from "../../../broker/broker.ts";
import {
  BatchImportConnectionsRequestSchema,
  ConnectionImportSchema,
  ConnectionService,
  type ImportResult,
  type StreamImportConnectionsRequest,
  StreamImportConnectionsRequestSchema,
  type StreamImportConnectionsResponse,
  StreamImportConnectionsResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { withByteItems } from "../../server/bulk/byte-items.ts";
import { envelopeHeadBytes } from "../../server/bulk/joined-envelopes.ts";
import { plainReaderFor } from "../../server/bulk/plain-messages.ts";
import { callerOf } from "../../server/context.ts";
import { binaryMethod, bulkStream, type SecondMethod } from "../../server/method-handlers.ts";
import type { RequireValid } from "../../server/validate.ts";
import { createItemImports, type ImportItem } from "./import-items.ts";

type ImportMethods = Pick<
  ServiceImpl<typeof ConnectionService>,
  "importConnection" | "batchImportConnections" | "streamImportConnections"
>;

/** The three ways to import connections: single, batch and stream. */
export const importMethods = (broker: Broker, requireValid: RequireValid): ImportMethods => {
  const { imports, environments, connections } = broker;
  const { importItems, importStream } = createItemImports(broker, requireValid);
  return {
    async importConnection({ connection: item }, context) {
      if (item === undefined) throw new Error("a validated request holds its connection");
      const caller = callerOf(context);
      const environment = await environments.of(caller, item.environment);
      const { connection, created } = await imports.importOne({ ...item, environment }, caller.keyId);
      const [shown = connection] = await connections.withLastUse([connection]);
      return { connection: shown, created };
    },
    async batchImportConnections({ connections: items, runHooks }, context) {
      const requested = items.map((connection) => ({ connection, runHooks }));
      return { results: await importItems(callerOf(context), requested) };
    },
    async *streamImportConnections(requests, context) {
      let index = 0n;
      for await (const results of importStream(callerOf(context), { come: oneByOne(requests), itemsOf: asTheyAre })) {
        yield* answersOf(results, index);
        index += BigInt(results.length);
      }
    },
  };
};

/** The batch and the stream, for binary messages: their items are read here. */
export const binaryImports = (broker: Broker, requireValid: RequireValid): readonly SecondMethod[] => {
  const { importItems, importStream } = createItemImports(broker, requireValid);
  const { batchImportConnections, streamImportConnections } = ConnectionService.method;
  return [
    binaryMethod(
      batchImportConnections,
      withByteItems<ImportBatch>(BatchImportConnectionsRequestSchema, "connections"),
      async ({ connections, runHooks }, context) => {
        const items = connections.map((bytes) => itemIn(bytes, runHooks));
        return { results: await importItems(callerOf(context), items) };
      },
    ),
    bulkStream(streamImportConnections, async function* (requests, context) {
      let index = 0n;
      for await (const results of importStream(callerOf(context), { come: together(requests), itemsOf: requestsIn })) {
        yield { value: bytesOfAnswers(answersOf(results, index)) };
        index += BigInt(results.length);
      }
    }),
  ];
};

type ImportBatch = Message<"latchkey.v1.BatchImportConnectionsRequest"> & {
  readonly connections: readonly Uint8Array[];
  readonly runHooks: boolean;
};

const bytesOfAnswers = envelopesFor(StreamImportConnectionsResponseSchema);

function* answersOf(results: readonly ImportResult[], first: bigint): Generator<StreamImportConnectionsResponse> {
  let index = first;
  for (const result of results) {
    yield { $typeName: "latchkey.v1.StreamImportConnectionsResponse", index, result };
    index += 1n;
  }
}

async function* oneByOne<T>(items: AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  for await (const item of items) yield [item];
}

const asTheyAre = (items: readonly StreamImportConnectionsRequest[]) => items;

/** Yields the bytes of the messages. */
async function* together(
  requests: AsyncIterable<{ readonly value: Uint8Array }>,
): AsyncGenerator<readonly Uint8Array[]> {
  for await (const { value } of requests) yield messagesIn(value);
}

/** Returns the messages in these envelopes, all of which are whole. */
function messagesIn(envelopes: Uint8Array): Uint8Array[] {
  const view = new DataView(envelopes.buffer, envelopes.byteOffset, envelopes.length);
  const messages: Uint8Array[] = [];
  for (let at = 0; at < envelopes.length; ) {
    const from = at + envelopeHeadBytes;
    at = from + view.getUint32(at + 1);
    messages.push(envelopes.subarray(from, at));
  }
  return messages;
}

const requestsIn = (messages: readonly Uint8Array[]): ImportItem[] => messages.map(requestIn);

const readPlainImport = plainReaderFor(ConnectionImportSchema);
const readPlainRequest = plainReaderFor(StreamImportConnectionsRequestSchema);

function itemIn(bytes: Uint8Array, runHooks: boolean): ImportItem {
  const connection = readPlainImport(bytes);
  if (connection === undefined) return { connection: read(ConnectionImportSchema, bytes), runHooks };
  return { connection, runHooks, isValid: true };
}

function requestIn(bytes: Uint8Array): ImportItem {
  const plain = readPlainRequest(bytes);
  if (plain === undefined) return read(StreamImportConnectionsRequestSchema, bytes);
  return { connection: plain.connection, runHooks: plain.runHooks, isValid: true };
}

function read<S extends DescMessage>(schema: S, bytes: Uint8Array): MessageShape<S> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    // The library's own error.
    const message = error instanceof Error ? error.message : String(error);
    throw new ConnectError(`parse binary: ${message}`, Code.Internal);
  }
}
