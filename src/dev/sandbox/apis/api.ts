import type { AccessCheck } from "../auth/access.ts";
import { claimsOf } from "../auth/id-tokens.ts";
import { json } from "../call.ts";
import type { SandboxRoute } from "../router.ts";

/** An API that accepts every kind of credentials, and echoes requests. */
export function apiRoutes(access: AccessCheck): readonly SandboxRoute[] {
  const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
  return [
    {
      method: "GET",
      path: "/api/me",
      endpoint: "api",
      answer(call) {
        const { person, by } = access.requireAny(call);
        return json({ ...person, by });
      },
    },
    ...methods.map(
      (method): SandboxRoute => ({
        method,
        path: "/api/echo/*",
        endpoint: "api",
        answer(call) {
          const { by } = access.requireAny(call);
          const { target, headers, body } = call;
          return json({ method: call.method, target, headers, body: body.toString("utf8"), by });
        },
      }),
    ),
    {
      method: "GET",
      path: "/oauth2/userinfo",
      endpoint: "userinfo",
      answer(call) {
        const { person, scopes } = access.require(call, ["openid"]);
        const held = scopes === "all" ? ["email", "profile"] : [...scopes];
        return json({ sub: person.id, ...claimsOf({ person, scopes: held }) });
      },
    },
  ];
}
