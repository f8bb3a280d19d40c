import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { intersectLimits } from "../../../../src/core/access/intersected-limits.ts";
import { mistakesInLimits } from "../../../../src/core/access/limit-mistakes.ts";
import { type CallerLimits, compileLimits } from "../../../../src/core/access/limits.ts";
import { commonPath } from "../../../../src/core/access/path-pattern.ts";
import { type AccessLimits, AccessLimitsSchema } from "../../../../src/gen/latchkey/v1/access_pb.ts";

const limits = (given: MessageInitShape<typeof AccessLimitsSchema>) => create(AccessLimitsSchema, given);

it.each([
  ["/a", "/a", "/a"],
  ["/a", "/b", undefined],
  ["/a/*", "/*/b", "/a/b"],
  ["/a/**", "/*/b/*", "/a/b/*"],
  ["/a/**", "/a", undefined],
  ["/a/**", "/a/**", "/a/**"],
  ["/**", "/a/*/c", "/a/*/c"],
  ["/a/*", "/a/", undefined],
  ["/a/", "/a/**", "/a/"],
  ["/*", "/*/b", undefined],
])("finds the paths that both patterns match: %s and %s", (a, b, expected) => {
  expect([commonPath(a, b), commonPath(b, a)]).toEqual([expected, expected]);
});

it("admits nothing if two limits have nothing in common, in whichever field", () => {
  for (const [a, b] of [
    [{ methods: ["GET"] }, { methods: ["POST"] }],
    [{ paths: ["/a"] }, { paths: ["/b"] }],
    [{ hosts: ["a.test"] }, { hosts: ["*.b.test"] }],
    [{ connections: [{ integration: "github", id: "ada" }] }, { connections: [{ integration: "github", id: "bob" }] }],
  ] as const) {
    const both = compileLimits(intersectLimits(limits(a as object), limits(b as object)));
    expect([a, both?.admitsConnection({ integration: "github", id: "ada" })]).toEqual([a, false]);
    expect(both?.admitsConnection({ integration: "", id: "" })).toBe(true);
  }
});

const choices = {
  connections: [
    { integration: "github", id: "" },
    { integration: "github", id: "ada" },
    { integration: "github", id: "bob" },
    { integration: "calendar", id: "ada" },
  ],
  methods: ["GET", "POST", "DELETE"],
  paths: ["/**", "/a/**", "/a/*", "/*/b", "/a/b", "/a/", "/*/*/c", "/b/**"],
  hosts: ["api.test", "*.test", "*.api.test", "x.api.test", "other.example"],
  tools: ["read_*", "read_file", "read_f*", "write"],
};
const tools = ["read_file", "read_all", "write", "delete"];
const requests = choices.methods.flatMap((method) =>
  ["/", "/a", "/a/", "/a/b", "/b/b", "/a/b/c", "/b/x", "/a/x/c"].flatMap((path) =>
    ["api.test", "x.api.test", "test", "other.example"].map((host) => {
      return { method, path, host, basePath: "", rawHeaders: [] };
    }),
  ),
);
const connections = ["github", "calendar"].flatMap((integration) =>
  ["ada", "bob", "eve"].map((id) => ({ integration, id })),
);
const anything: Pick<CallerLimits, "admitsConnection" | "refusalOf" | "admitsTool"> = {
  admitsConnection: () => true,
  refusalOf: () => undefined,
  admitsTool: () => true,
};

it("admits exactly what both limits admit", () => {
  let seed = 1;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const some = <T>(list: readonly T[]): T[] => (random(3) === 0 ? [] : list.filter(() => random(3) === 0));
  const made = (): AccessLimits =>
    limits({
      connections: some(choices.connections),
      methods: some(choices.methods),
      paths: some(choices.paths),
      hosts: some(choices.hosts),
      tools: some(choices.tools),
    });
  const admits = (given: AccessLimits | undefined) => {
    const { admitsConnection, refusalOf, admitsTool } = compileLimits(given) ?? anything;
    const sent = connections.flatMap((connection) =>
      requests.map((request) => admitsConnection(connection) && refusalOf(request) === undefined),
    );
    return [...sent, ...tools.map(admitsTool)];
  };
  let admitted = 0;
  for (let i = 0; i < 400; i += 1) {
    const [a, b] = [made(), made()];
    const both = intersectLimits(a, b);
    const [inA, inB, inBoth] = [admits(a), admits(b), admits(both)];
    const wrong = inBoth.findIndex((is, at) => is !== (inA[at] === true && inB[at] === true));
    expect([wrong, a, b, both].slice(0, wrong === -1 ? 1 : 4)).toEqual([-1]);
    admitted += inBoth.filter(Boolean).length;
  }
  expect(admitted).toBeGreaterThan(1_000);
  expect(mistakesInLimits(limits({ paths: choices.paths, hosts: choices.hosts }))).toEqual([]);
});
