import { expect, it } from "vitest";
import { readImportJson } from "../../../../src/core/dialect/import-line.ts";
import { type BodySchema, inBody, readBody } from "../../../../src/data-plane/api/body-fields.ts";
import type { FieldShape, ValuesOf } from "../../../../src/data-plane/api/field-shape.ts";
import { jsonRoutes } from "../../../../src/data-plane/api/json-routes.ts";
import { inQuery, readQueryValues } from "../../../../src/data-plane/api/query-fields.ts";
import { readQuery } from "../../../../src/data-plane/server/query.ts";

const person = {
  name: inBody.requiredText,
  role: inBody.choice("reader", "writer"),
  age: inBody.integer({ min: 0, max: 150, fallback: 18 }),
  address: inBody.object({ city: inBody.requiredText }),
  tags: inBody.textMap,
};

const read = <S extends BodySchema>(body: Parameters<typeof readBody>[0], schema: S): ValuesOf<S> =>
  readBody(body, schema, { refusesMisspelled: false, ignore() {} }, () => {});

it("reads a body by its schema, and names the fields that the schema does not name", () => {
  const body = { name: "Ada", role: "writer", address: { city: "London", zip: "x" }, color: "red" };
  const ignored: string[] = [];
  const report = { refusesMisspelled: true, ignore: (names: readonly string[]) => void ignored.push(...names) };
  const values = readBody(body, person, report, () => {});
  expect(values).toMatchObject({ name: "Ada", role: "writer", age: 18, address: { city: "London" } });
  expect(ignored).toEqual(["address.zip", "color"]);
  expect(() => readBody({ nme: "Ada" }, person, report, () => {})).toThrow(
    expect.objectContaining({
      message: 'unknown field "nme"; did you mean "name"?',
      hint: 'did you mean "name"?',
      mistakes: [
        { path: ["nme"], message: expect.any(String) },
        { path: ["name"], message: "is required" },
      ],
    }),
  );
});

it("names everything that is wrong with a body", () => {
  const body = { role: "owner", age: 200, address: {}, tags: { a: 1 } };
  expect(() => read(body, person)).toThrow(
    expect.objectContaining({
      code: "invalid_body",
      message:
        "the body is not valid: name is required; role must be reader or writer; " +
        "age must be a whole number from 0 to 150; and 2 more",
      mistakes: [
        { path: ["name"], message: "is required" },
        { path: ["role"], message: "must be reader or writer" },
        { path: ["age"], message: "must be a whole number from 0 to 150" },
        { path: ["address", "city"], message: "is required" },
        { path: ["tags", "a"], message: "must be text" },
      ],
    }),
  );
});

it("reads a query by its schema", () => {
  const schema = { type: inQuery.choice("action", "sync", "on-event"), page: inQuery.integer({ min: 0, max: 9 }) };
  expect(readQueryValues(schema, readQuery("type=sync&page=3"))).toEqual({ type: "sync", page: 3 });
  const query = readQuery("type=x&page=10");
  readQueryValues(schema, query);
  expect(() => query.end()).toThrow(
    "the query is not valid: type must be one of action, sync, on-event; page must be a whole number from 0 to 9",
  );
});

it("has the method, path, scope, query and body of each JSON route as data", () => {
  const rows = jsonRoutes.map(({ method, path }) => `${method} ${path}`);
  expect(new Set(rows).size).toBe(rows.length);
  const shapes = jsonRoutes.flatMap(({ query, body = {} }) => [...Object.values(query), ...Object.values(body)]);
  expect(shapes.length).toBeGreaterThan(80);
  const types = new Set(shapes.map(({ type }) => type));
  expect([...types].sort()).toEqual(["any", "array", "boolean", "integer", "object", "string"]);
});

it("describes the body of an import as its parser reads it", () => {
  const row = jsonRoutes.find(({ method, path }) => method === "POST" && path === "/connections");
  const samples: Partial<Record<FieldShape["type"], unknown>> = { string: "x", object: {} };
  const body = Object.fromEntries(Object.entries(row?.body ?? {}).map(([name, { type }]) => [name, samples[type]]));
  const user = { id: "ada", email: "x", display_name: "x", tags: {}, organization: { id: "x", display_name: "x" } };
  const line = { ...body, end_user: user, credentials: { type: "API_KEY", apiKey: "x" } };
  expect(readImportJson(line).ignored).toEqual([]);
});
