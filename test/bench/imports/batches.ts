import { type ClientHttp2Session, connect, constants } from "node:http2";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  BatchImportConnectionsRequestSchema,
  BatchImportConnectionsResponseSchema,
  ConnectionService,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { importOf, integration } from "../connections.ts";
import { secretKey } from "../sidecar-process.ts";

const itemsOfBatch = 1_000;
const atATime = 4;
const path = `/${ConnectionService.typeName}/BatchImportConnections`;
const { HTTP2_HEADER_METHOD, HTTP2_HEADER_PATH, HTTP2_HEADER_STATUS } = constants;

interface Batches {
  readonly control: string;
  readonly count: number;
}

/**
 * Encodes batches of 1,000, and returns the function that sends them, four at a time, and returns how many items
 * failed. The client encodes and decodes nothing in between: it shares the cores with the sidecar.
 */
export function prepareBatches({ control, count }: Batches): () => Promise<number> {
  const bodies: Uint8Array[] = [];
  for (let at = 0; at < count; at += itemsOfBatch) {
    const connections = Array.from({ length: Math.min(itemsOfBatch, count - at) }, (_, i) =>
      importOf(at + i, integration),
    );
    const request = create(BatchImportConnectionsRequestSchema, { connections });
    bodies.push(toBinary(BatchImportConnectionsRequestSchema, request));
  }
  return async () => {
    const session = connect(control);
    const answers: Buffer[] = [];
    const left = bodies.values();
    const sendRest = async () => {
      for (const body of left) answers.push(await answerTo(session, body));
    };
    await Promise.all(Array.from({ length: atATime }, sendRest));
    session.close();
    const results = answers.flatMap((answer) => fromBinary(BatchImportConnectionsResponseSchema, answer).results);
    return count - results.filter(({ problem }) => problem === undefined).length;
  };
}

function answerTo(session: ClientHttp2Session, body: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const call = session.request({
      [HTTP2_HEADER_METHOD]: "POST",
      [HTTP2_HEADER_PATH]: path,
      "content-type": "application/proto",
      authorization: `Bearer ${secretKey}`,
    });
    const chunks: Buffer[] = [];
    let status = 0;
    call.on("response", (head) => {
      status = Number(head[HTTP2_HEADER_STATUS]);
    });
    call.on("data", (chunk: Buffer) => chunks.push(chunk));
    call.on("error", reject);
    call.on("end", () => {
      const answer = Buffer.concat(chunks);
      if (status === 200) resolve(answer);
      else reject(new Error(`a batch was answered with ${status}: ${answer.toString("utf8", 0, 500)}`));
    });
    call.end(body);
  });
}
