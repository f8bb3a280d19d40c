import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { foreignClient, type Plain, post } from "./foreign.ts";
import { methods } from "./services.ts";

const running = sidecarOfFile();
const call = async (method: string, body: unknown): Promise<Plain> => {
  const { status, body: answer } = await post(running().control, `ConnectionService/${method}`, body);
  expect({ status, code: answer["code"] }).toEqual({ status: 200, code: undefined });
  return answer;
};

const refTo = (id: string): Plain => ({ environment: "dev", integration: "keyed", id });
const item = (id: string, more: Plain = {}): Plain => ({
  ...refTo(id),
  credentials: { apiKey: { apiKey: `key-of-${id}` } },
  ...more,
});
/** The outcome of each item: `ok`, or the code of its problem. */
const fates = ({ results }: Plain): readonly string[] => results.map(({ problem }: Plain) => problem?.code ?? "ok");
const pathsIn = ({ problem }: Plain): readonly string[] => problem.violations.map(({ path }: Plain) => path);

/** One item with each kind of mistake, between two good ones. */
const mixed = (prefix: string): readonly Plain[] => [
  item(`${prefix}-first`),
  item(`${prefix}-nobody`, { integration: "nobody" }),
  item(`${prefix}-kind`, { credentials: { basic: { username: "u" } } }),
  item(`${prefix}-none`, { credentials: {} }),
  item("../x"),
  item(`${prefix}-tags`, { tags: { tags: { "1": "x" } } }),
  item(`${prefix}-user`, { endUser: { email: "x".repeat(256) } }),
  item(`${prefix}-far`, { environment: "prod" }),
  item(`${prefix}-deep`, { metadata: JSON.parse(`${'{"a":'.repeat(70)}1${"}".repeat(70)}`) }),
  {},
  item(`${prefix}-last`),
];

it("imports the valid items of a batch, and reports what is wrong with each other one", async () => {
  const answer = await call("BatchImportConnections", { connections: mixed("b") });
  expect(fates(answer)).toEqual([
    "ok",
    "unknown_provider_config",
    "invalid_body",
    "invalid_body",
    "invalid_body",
    "invalid_body",
    "invalid_body",
    "unknown_environment",
    "invalid_body",
    "invalid_body",
    "ok",
  ]);
  expect(answer["results"].map(({ ref }: Plain) => ref?.id)).toEqual(mixed("b").map(({ id }) => id));
  expect(pathsIn(answer["results"][6])).toContain("end_user.email");
  const { connections } = await call("ListConnections", { environment: "dev", filter: { search: "b-" } });
  expect(connections.map(({ ref }: Plain) => ref.id)).toEqual(["b-first", "b-last"]);
});

it("imports the valid items of a stream, which continues after bad ones", async () => {
  const stream = foreignClient(running().control).bidi("ConnectionService/StreamImportConnections");
  const answers: Plain[] = [];
  stream.on("data", (one: Plain) => answers.push(one));
  const ended = new Promise<Plain>((resolve) => stream.once("status", resolve));
  const bad = { environment: "dev", integration: "nobody", id: "s-bad", credentials: { api_key: { api_key: "k" } } };
  for (const id of ["s-first", "s-bad", "s-last"]) {
    stream.write({ connection: id === "s-bad" ? bad : { ...bad, integration: "keyed", id } });
  }
  stream.write({});
  stream.end();
  expect((await ended)["code"]).toBe(0);
  expect(answers.map(({ result }) => result.problem?.code ?? "ok")).toEqual([
    "ok",
    "unknown_provider_config",
    "ok",
    "invalid_body",
  ]);
});

it("refuses values that could not be shown again, and imports the other items", async () => {
  // Values that JSON cannot express are sent as protobuf.
  const credentials = { oauth2: { access_token: "t", expires_at: { seconds: "1152921504606846976" } } };
  const message = {
    connections: [
      { environment: "dev", integration: "calendar", id: "far-future", credentials },
      {
        environment: "dev",
        integration: "calendar",
        id: "no-number",
        credentials: { oauth2: { access_token: "t" } },
        metadata: { fields: { a: { listValue: { values: [{ numberValue: Number.NaN }] } } } },
      },
      { environment: "dev", integration: "calendar", id: "sayable", credentials: { oauth2: { access_token: "t" } } },
    ],
  };
  const imported = await foreignClient(running().control).unary("ConnectionService/BatchImportConnections", message);
  expect(fates(imported)).toEqual(["invalid_body", "invalid_body", "ok"]);
  expect(pathsIn(imported["results"][0])).toEqual(["credentials.oauth2.expires_at"]);
  expect(pathsIn(imported["results"][1])).toEqual(["metadata.a.0"]);
  const { results } = await call("BatchGetConnections", {
    refs: ["far-future", "no-number", "sayable"].map((id) => ({ environment: "dev", integration: "calendar", id })),
  });
  expect(fates({ results })).toEqual(["unknown_connection", "unknown_connection", "ok"]);
  expect((await running().rest("GET", "/connections")).status).toBe(200);
});

it("gets each of several connections for itself", async () => {
  await call("BatchImportConnections", { connections: [item("g-one"), item("g-two")] });
  const refs = [
    refTo("g-one"),
    refTo("g-nobody"),
    refTo(""),
    { ...refTo("g-two"), integration: "nobody" },
    refTo("g-two"),
  ];
  const answer = await call("BatchGetConnections", { refs });
  expect(fates(answer)).toEqual(["ok", "unknown_connection", "invalid_body", "unknown_provider_config", "ok"]);
  expect(answer["results"].map(({ connection }: Plain) => connection?.ref.id)).toEqual([
    "g-one",
    undefined,
    undefined,
    undefined,
    "g-two",
  ]);
});

it("changes the metadata of each of several connections for itself", async () => {
  await call("BatchImportConnections", { connections: ["m-one", "m-two", "m-three"].map((id) => item(id)) });
  const { results: before } = await call("BatchGetConnections", { refs: [refTo("m-two")] });
  const updates = [
    { ref: refTo("m-one"), metadata: { a: 1 } },
    { ref: refTo("m-two"), metadata: { a: 1 }, expectedRevision: String(Number(before[0].connection.revision) - 1) },
    { ref: refTo("m-nobody"), metadata: { a: 1 } },
    { ref: refTo("m-three"), metadata: { calendarWatchResourceUris: "no list" } },
    {},
    { ref: refTo("m-three"), metadata: { b: 2 } },
  ];
  const answer = await call("BatchUpdateMetadata", { updates });
  expect(fates(answer)).toEqual(["ok", "conflict", "unknown_connection", "invalid_body", "invalid_body", "ok"]);
  const { results } = await call("BatchGetConnections", { refs: ["m-one", "m-two", "m-three"].map(refTo) });
  expect(results.map(({ connection }: Plain) => connection.metadata)).toEqual([{ a: 1 }, {}, { b: 2 }]);
});

it("deletes each of several connections for itself", async () => {
  await call("BatchImportConnections", { connections: ["d-one", "d-two", "d-moved"].map((id) => item(id)) });
  const { results } = await call("BatchGetConnections", { refs: [refTo("d-moved")] });
  const { revision } = results[0].connection;
  const deletions = [
    { ref: refTo("d-one") },
    { ref: refTo("d-nobody") },
    { ref: refTo("d-two") },
    { ref: refTo("d-two") },
    { ref: refTo("d-moved"), expectedRevision: String(Number(revision) - 1) },
    {},
    { ref: refTo("d-moved"), expectedRevision: revision },
  ];
  expect(fates(await call("BatchDeleteConnections", { deletions }))).toEqual([
    "ok",
    "unknown_connection",
    "ok",
    "unknown_connection",
    "conflict",
    "invalid_body",
    "ok",
  ]);
});

/** The fields of a batch's items. */
const fieldsOf = (method: string) =>
  methods.find(({ name }) => name === method)?.input.fields.map(({ jsonName }) => jsonName) ?? [];

it.each(["BatchImportConnections", "BatchGetConnections", "BatchUpdateMetadata", "BatchDeleteConnections"])(
  "bounds %s to a thousand items, and takes no empty one",
  async (method) => {
    const [field = ""] = fieldsOf(method);
    for (const count of [0, 1_001]) {
      const { status, body } = await post(running().control, `ConnectionService/${method}`, {
        [field]: Array.from({ length: count }, () => ({})),
      });
      expect({ count, status, code: body["code"] }).toEqual({ count, status: 400, code: "invalid_argument" });
    }
    expect(fates(await call(method, { [field]: Array.from({ length: 1_000 }, () => ({})) }))).toHaveLength(1_000);
  },
);
