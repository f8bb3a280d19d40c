import { Fault } from "../base/fault.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { Route } from "./routes.ts";

/** Routes whose place is settled and whose room is not built: they say so, to those who may ask. */
const rows: readonly Pick<Route, "method" | "path" | "scope">[] = [
  { method: "POST", path: "/integrations/quickstart", scope: Scope.INTEGRATIONS_WRITE },
  { method: "ANY", path: "/integrations/:key/functions", scope: Scope.INTEGRATIONS_READ },
  { method: "ANY", path: "/integrations/:key/functions/*", scope: Scope.INTEGRATIONS_READ },
];

export const laterRoutes = (): Route[] =>
  rows.map((row) => ({
    ...row,
    answer() {
      throw new Fault("not_implemented", "this version of latchkey cannot do that yet");
    },
  }));
