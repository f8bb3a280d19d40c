import { fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { envelopesFor } from "../../../base/message-bytes.ts";
import type { Broker } from "../../../broker/broker.ts";
import {
  ConnectionService,
  type ImportResult,
  type StreamImportConnectionsRequest,
  StreamImportConnectionsRequestSchema,
  type StreamImportConnectionsResponse,
  StreamImportConnectionsResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { envelopeHeadBytes } from "../../server/bulk/joined-envelopes.ts";
import { callerOf } from "../../server/context.ts";
import type { BulkStream } from "../../server/method-handlers.ts";
import type { RequireValid } from "../../server/validate.ts";
import { createItemImports } from "./import-items.ts";

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

/** The stream, for messages that arrive together. */
export const bulkImport = (broker: Broker, requireValid: RequireValid): BulkStream => {
  const { importStream } = createItemImports(broker, requireValid);
  return {
    method: ConnectionService.method.streamImportConnections,
    async *implementation(requests, context) {
      let index = 0n;
      for await (const results of importStream(callerOf(context), { come: together(requests), itemsOf: requestsIn })) {
        yield { value: bytesOfAnswers(answersOf(results, index)) };
        index += BigInt(results.length);
      }
    },
  };
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

const requestsIn = (messages: readonly Uint8Array[]): StreamImportConnectionsRequest[] => messages.map(requestIn);

function requestIn(bytes: Uint8Array): StreamImportConnectionsRequest {
  try {
    return fromBinary(StreamImportConnectionsRequestSchema, bytes);
  } catch (error) {
    // The library's own error.
    const message = error instanceof Error ? error.message : String(error);
    throw new ConnectError(`parse binary: ${message}`, Code.Internal);
  }
}
