import { expect, it } from "vitest";
import type { Broker } from "../../../../src/broker/broker.ts";
import { restRoutes } from "../../../../src/data-plane/api/rest.ts";
import type { ConnectSockets } from "../../../../src/data-plane/connect/connect-sockets.ts";
import { ownFirstSegments } from "../../../../src/data-plane/server/own-paths.ts";

it("knows every path of the listener, so that no script takes one", () => {
  // Reads the table of routes and calls none.
  const routes = restRoutes({
    broker: {} as Broker,
    sockets: {} as ConnectSockets,
    publicUrl: () => "",
    proxyAddress: () => undefined,
  });
  expect(routes.length).toBeGreaterThan(40);
  const first = new Set(routes.map(({ path }) => path.split("/")[1] ?? ""));
  expect([...first].filter((segment) => !ownFirstSegments.has(segment))).toEqual([]);
});
