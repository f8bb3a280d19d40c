import type { Fault, RpcError } from "../fault.ts";
import { docUrlOf } from "../fault-docs.ts";

/** Error envelope of all JSON responses. A script's error has the SDK's fields in addition. */
export const errorBody = (fault: Fault): string =>
  fault.answer?.body ?? (fault.rpcError === undefined ? envelopeOf(fault) : rpcBody(fault, fault.rpcError));

const rpcBody = ({ code, message }: Fault, { code: rpcCode, id }: RpcError): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: rpcCode, message, data: { code, doc_url: docUrlOf(code) } })}}`;

const envelopeOf = ({ code, message, hint, mistakes, script, payload }: Fault): string =>
  JSON.stringify({
    error: {
      code: script?.code ?? code,
      message,
      ...(hint !== undefined && { hint }),
      doc_url: docUrlOf(code),
      ...(mistakes.length === 0
        ? {}
        : { errors: mistakes.map((mistake) => ({ code, message: mistake.message, path: mistake.path })) }),
      ...(payload !== undefined && { payload }),
      ...(script?.additionalProperties && { additional_properties: script.additionalProperties }),
    },
  });
