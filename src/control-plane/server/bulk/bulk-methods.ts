import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod, DescMethodBiDiStreaming, MessageInitShape } from "@bufbuild/protobuf";
import { type BytesValue, BytesValueSchema } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import type { UniversalHandler, UniversalHandlerFn } from "@connectrpc/connect/protocol";
import { joinedEnvelopes, separatedEnvelopes } from "./joined-envelopes.ts";

/**
 * Implements a method for streams of many small messages. Each request holds messages that arrived together, and each
 * response holds messages to send together, all with their envelopes.
 */
export type BulkImplementation = (
  requests: AsyncIterable<BytesValue>,
  context: HandlerContext,
) => AsyncIterable<MessageInitShape<typeof BytesValueSchema>>;

export type BulkMethod = DescMethodBiDiStreaming<typeof BytesValueSchema, typeof BytesValueSchema>;

/**
 * Returns the same method, with the same options, for messages that are joined. It inherits from the method: in the
 * bundle, descriptors have getters that a copy of their own properties would lose, and with them the options.
 */
export const inBulk = (method: DescMethod): BulkMethod =>
  Object.create(method, {
    methodKind: { value: "bidi_streaming", enumerable: true },
    input: { value: BytesValueSchema, enumerable: true },
    output: { value: BytesValueSchema, enumerable: true },
  }) as BulkMethod;

/** Room for the message that holds others, beside the largest message. */
export const bulkMaxBytes = (maxMessageBytes: number): number => 2 * maxMessageBytes + 128 * 1024;

const binary = /^application\/(?:grpc(?:-web)?(?:\+proto)?|connect\+proto)$/i;
const encodings = ["grpc-encoding", "connect-content-encoding"];
const accepted = ["grpc-accept-encoding", "connect-accept-encoding"];

/** Whether the messages of a stream are binary, and not compressed. */
export const isForBulk = (headers: IncomingHttpHeaders): boolean =>
  binary.test(headers["content-type"] ?? "") &&
  encodings.every((name) => headers[name] === undefined || headers[name] === "identity");

/** Joins and separates the messages around a handler of a bulk method. */
export function bulkHandler(handler: UniversalHandler, maxMessageBytes: number): UniversalHandler {
  const { protocolNames, service, method, requestPath, allowedMethods, supportedContentType } = handler;
  const handle: UniversalHandlerFn = async (request) => {
    // The joined message would be compressed, in place of the messages.
    const header = new Headers(request.header);
    for (const name of accepted) header.delete(name);
    const body = joinedEnvelopes(request.body as AsyncIterable<Uint8Array>, maxMessageBytes);
    const answered = await handler({ ...request, header, body });
    return answered.body === undefined ? answered : { ...answered, body: separatedEnvelopes(answered.body) };
  };
  return Object.assign(handle, {
    protocolNames,
    service,
    method,
    requestPath,
    allowedMethods,
    supportedContentType,
  });
}
