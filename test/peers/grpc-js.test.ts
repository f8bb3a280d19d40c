import grpc from "@grpc/grpc-js";
import { expect, it } from "vitest";
import { decode, endOf, foreignClient, type Plain } from "../cases/control-plane/foreign.ts";
import { startTestSidecar } from "../support/sidecar/harness.ts";

/** An unmodified grpc-js client that knows only the proto files. */
async function connected() {
  const { control } = await startTestSidecar();
  const client = foreignClient(control);
  await client.unary("IntegrationService/CreateIntegration", {
    integration: { environment: "dev", key: "keyed", provider: "example-api-key" },
  });
  return client;
}

const item = (id: string): Plain => ({
  environment: "dev",
  integration: "keyed",
  id,
  credentials: { api_key: { api_key: `key-of-${id}` } },
});
const refTo = (id: string): Plain => ({ environment: "dev", integration: "keyed", id });

it("imports a connection with grpc-js, and reads it back", async () => {
  const client = await connected();
  const { created } = await client.unary("ConnectionService/ImportConnection", { connection: item("ada") });
  expect(created).toBe(true);
  const { connection, credentials } = await client.unary("ConnectionService/GetConnection", {
    ref: refTo("ada"),
    include_credentials: true,
  });
  expect(connection).toMatchObject({ ref: refTo("ada"), provider: "example-api-key", state: "STATE_ACTIVE" });
  expect(credentials).toMatchObject({ kind: "api_key", api_key: { api_key: "key-of-ada" } });
});

it("watches with grpc-js: the current state, and then changes", async () => {
  const client = await connected();
  for (const id of ["ada", "bob"]) await client.unary("ConnectionService/ImportConnection", { connection: item(id) });
  const watching = client.serverStream("ConnectionService/WatchConnections", { environment: "dev" });
  const steps: string[] = [];
  const arrivals = new Map<number, () => void>();
  watching.on("data", (step: Plain) => {
    steps.push(step["marker"]?.kind ?? `${step["event"]} ${step[step["event"]].ref.id}`);
    arrivals.get(steps.length)?.();
  });
  const arrived = (count: number) =>
    steps.length >= count ? Promise.resolve() : new Promise<void>((resolve) => arrivals.set(count, resolve));
  const ended = endOf(watching);

  await arrived(4);
  await client.unary("ConnectionService/ImportConnection", { connection: item("cyd") });
  await arrived(5);
  await client.unary("ConnectionService/DeleteConnection", { ref: refTo("bob") });
  await arrived(6);
  expect(steps).toEqual(["KIND_SNAPSHOT_BEGIN", "put ada", "put bob", "KIND_SNAPSHOT_END", "put cyd", "deleted bob"]);
  watching.cancel();
  expect((await ended).code).toBe(grpc.status.CANCELLED);
});

it("imports a stream with grpc-js, and receives the outcome of each item in order", async () => {
  const client = await connected();
  const importing = client.bidi("ConnectionService/StreamImportConnections");
  const answers: Plain[] = [];
  importing.on("data", (answer: Plain) => answers.push(answer));
  const ended = endOf(importing);
  for (let i = 0; i < 1_500; i += 1) {
    importing.write({ connection: i === 700 ? { ...item(`s-${i}`), integration: "nobody" } : item(`s-${i}`) });
  }
  importing.end();
  expect((await ended).code).toBe(grpc.status.OK);
  expect(answers.map(({ index }) => Number(index ?? 0))).toEqual(Array.from({ length: 1_500 }, (_, i) => i));
  const refused = answers.filter(({ result }) => result.problem !== undefined);
  expect(refused.map(({ index, result }) => [index, result.problem.code, result.ref.id])).toEqual([
    ["700", "unknown_provider_config", "s-700"],
  ]);
});

it("answers an item of a stream before the next one is sent", async () => {
  const client = await connected();
  const importing = client.bidi("ConnectionService/StreamImportConnections");
  const ended = endOf(importing);
  for (const id of ["one", "two", "three"]) {
    const answered = new Promise<Plain>((resolve) => importing.once("data", resolve));
    importing.write({ connection: item(id) });
    expect((await answered)["result"]).toMatchObject({ ref: refTo(id), created: true });
  }
  importing.end();
  expect((await ended).code).toBe(grpc.status.OK);
});

/** The details (3) of `google.rpc.Status`, each with its type (1) and bytes (2). */
function detailsOf(status: Uint8Array): ReadonlyMap<string, Uint8Array> {
  const fields = (bytes: Uint8Array) => {
    const found: { readonly number: number; readonly bytes: Uint8Array }[] = [];
    let at = 0;
    const varint = () => {
      let value = 0;
      for (let shift = 0; ; shift += 7) {
        const byte = bytes[at] ?? 0;
        at += 1;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.length) {
      const tag = varint();
      const length = varint();
      // Numbers (wire type 0) have no bytes to skip.
      if ((tag & 7) === 0) continue;
      found.push({ number: tag >> 3, bytes: bytes.subarray(at, at + length) });
      at += length;
    }
    return found;
  };
  const anys = fields(status).filter(({ number }) => number === 3);
  return new Map(
    anys.map(({ bytes }) => {
      const [type, value] = fields(bytes);
      return [
        Buffer.from(type?.bytes ?? [])
          .toString()
          .replace("type.googleapis.com/", ""),
        value?.bytes ?? new Uint8Array(),
      ];
    }),
  );
}

it("reports errors to grpc-js with place and code", async () => {
  const client = await connected();
  const failure: grpc.ServiceError = await client
    .unary("ConnectionService/GetConnection", { ref: { environment: "dev" } })
    .then(
      () => expect.unreachable("a connection without a name was found"),
      (error: grpc.ServiceError) => error,
    );
  expect(failure.code).toBe(grpc.status.INVALID_ARGUMENT);
  expect(failure.metadata.get("latchkey-error")).toEqual(["invalid_body"]);
  const [bytes] = failure.metadata.get("grpc-status-details-bin");
  const details = detailsOf(bytes as Buffer);
  expect(decode("google.rpc.ErrorInfo", details.get("google.rpc.ErrorInfo") ?? new Uint8Array())).toMatchObject({
    reason: "invalid_body",
    domain: "latchkey",
  });
  const { field_violations: violations } = decode(
    "google.rpc.BadRequest",
    details.get("google.rpc.BadRequest") ?? new Uint8Array(),
  );
  expect(violations.map(({ field }: Plain) => field)).toEqual(["ref.integration", "ref.id"]);
});

it("answers many calls of one grpc-js channel at once", async () => {
  const client = await connected();
  const ids = Array.from({ length: 300 }, (_, i) => `p-${i}`);
  const answers = await Promise.all(
    ids.map((id) => client.unary("ConnectionService/ImportConnection", { connection: item(id) })),
  );
  expect(answers.map(({ connection }) => connection.ref.id)).toEqual(ids);
});
