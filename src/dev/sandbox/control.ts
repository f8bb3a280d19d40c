import * as v from "valibot";
import { hostName } from "../../base/http/door-guard.ts";
import { clientSchema, type SandboxClients } from "./auth/clients.ts";
import { type Behaviour, BehaviourMistake, createBehaviour } from "./behaviour.ts";
import { type Call, formOf, json, objectOf, refuse, type SandboxAnswer } from "./call.ts";
import { activeOf, overview } from "./page/overview.ts";
import { redirect } from "./page/page.ts";
import { troubleOf } from "./page/troubles.ts";
import type { SandboxReport } from "./report.ts";
import type { SandboxRoute } from "./router.ts";

interface SandboxControlOptions {
  readonly origin: () => string;
  readonly behaviour: Behaviour;
  readonly clients: SandboxClients;
  readonly seen: () => SandboxReport;
  readonly revoke: (which: RevokeFilter) => number;
  readonly grant: (request: GrantInput) => unknown;
  readonly changeCalendar: (user: string, changes: number) => void;
  readonly reset: () => void;
}

/** A grant must match every field that is set; without fields, all grants match. */
export const revokeSchema = v.strictObject({
  grant: v.optional(v.string()),
  user: v.optional(v.string()),
  client: v.optional(v.string()),
  token: v.optional(v.string()),
});
export type RevokeFilter = v.InferInput<typeof revokeSchema>;

export const grantSchema = v.strictObject({
  /** The user's email address. */
  user: v.optional(v.string(), "ada@example.com"),
  client: v.optional(v.string(), "sandbox"),
  scopes: v.optional(v.array(v.pipe(v.string(), v.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))), [
    "openid",
    "email",
    "profile",
    "drive",
    "gmail.modify",
    "spreadsheets",
    "calendar",
  ]),
});
export type GrantInput = v.InferInput<typeof grantSchema>;

/** Changes of a user's primary calendar by another person; many changes are a burst of notifications. */
export const calendarSchema = v.strictObject({
  user: v.optional(v.string(), "ada@example.com"),
  changes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000)), 1),
});

/** The sandbox's own page, and the API that reports what it saw and sets how it behaves. */
export function controlRoutes({
  origin,
  behaviour,
  clients,
  seen,
  revoke,
  grant,
  changeCalendar,
  reset,
}: SandboxControlOptions): readonly SandboxRoute[] {
  /** Refuses requests that a foreign page sends through a browser, also by DNS rebinding. */
  function requireOwn({ headers }: Call): void {
    const host = headers.host ?? "";
    const isOwn = host === new URL(origin()).host || /^(127\.0\.0\.1|\[::1\]|localhost)$/.test(hostName(host) ?? "");
    const from = headers.origin;
    const isForeign = from !== undefined && (!URL.canParse(from) || new URL(from).host !== host);
    if (!isOwn || isForeign || headers["sec-fetch-site"] === "cross-site") {
      throw refuse(403, "forbidden", "Only this machine may call this, and no other site's page.");
    }
  }

  const own = (method: string, path: string, answer: (call: Call) => SandboxAnswer): SandboxRoute => ({
    method,
    path,
    endpoint: "sandbox",
    answer(call) {
      requireOwn(call);
      return answer(call);
    },
  });

  const usual = createBehaviour().shown();
  const showOverview = ({ query }: Call) =>
    overview({
      origin: origin(),
      clients,
      report: seen(),
      made: query.get("made") ?? "",
      active: activeOf(behaviour.shown(), usual),
    });

  function makeTrouble(call: Call): SandboxAnswer {
    const trouble = troubleOf(formOf(call).get("trouble") ?? "");
    if (trouble === undefined) throw refuse(400, "invalid", "The sandbox has no such failure.");
    const { change: behave, reset: behaveWell } = behaviour;
    trouble.make({ behave, behaveWell, revoke, changeCalendar, reset });
    return redirect(`/_sandbox?made=${trouble.id}`);
  }

  return [
    { method: "GET", path: "/", endpoint: "sandbox", answer: () => redirect("/_sandbox") },
    own("GET", "/_sandbox", showOverview),
    own("GET", "/_sandbox/", showOverview),
    own("POST", "/_sandbox/trouble", makeTrouble),
    own("GET", "/_sandbox/seen", () => json(seen())),
    own("GET", "/_sandbox/behaviour", () => json(behaviour.shown())),
    own("PUT", "/_sandbox/behaviour", (call) => {
      try {
        behaviour.change(objectOf(call));
      } catch (error) {
        if (error instanceof BehaviourMistake) throw refuse(400, "invalid", error.message);
        throw error;
      }
      return json(behaviour.shown());
    }),
    own("GET", "/_sandbox/clients", () => json({ clients: [...clients.values()] })),
    own("PUT", "/_sandbox/clients/:id", (call) => {
      const client = read(clientSchema, { ...objectOf(call), id: call.params["id"] });
      clients.set(client.id, client);
      return json(client);
    }),
    own("POST", "/_sandbox/grant", (call) => json(grant(read(grantSchema, objectOf(call))))),
    own("POST", "/_sandbox/revoke", (call) => json({ revoked: revoke(read(revokeSchema, objectOf(call))) })),
    own("POST", "/_sandbox/calendar", (call) => {
      const { user, changes } = read(calendarSchema, objectOf(call));
      changeCalendar(user, changes);
      return json({});
    }),
    own("POST", "/_sandbox/reset", () => {
      reset();
      return json({});
    }),
  ];
}

function read<S extends v.GenericSchema>(schema: S, value: unknown): v.InferOutput<S> {
  const found = v.safeParse(schema, value);
  if (found.success) return found.output;
  const mistakes = found.issues.map((issue) => `${v.getDotPath(issue) ?? "the body"}: ${issue.message}`);
  throw refuse(400, "invalid", mistakes.join("; "));
}
