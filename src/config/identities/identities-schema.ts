import * as v from "valibot";
import { accessLimits } from "../access/access-limits.ts";

interface SharedSchemas {
  readonly name: v.GenericSchema<string, string>;
  readonly scope: v.GenericSchema<string, string>;
}

const text = (description: string) => v.optional(v.pipe(v.string(), v.nonEmpty(), v.description(description)));
const userId = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(4_294_967_294));

const issuer = v.strictObject({
  name: v.pipe(
    v.string(),
    v.regex(/^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/, "must be lower-case letters, digits and dashes"),
    v.description("Name of the issuer in rules, logs and the audit trail."),
  ),
  issuer: text("`iss` of the tokens: the issuer of a Kubernetes cluster. Optional with trust_domain."),
  users: v.optional(
    v.pipe(
      v.boolean(),
      v.description("The issuer is an OAuth authorization server, whose tokens let users into the MCP endpoint."),
    ),
  ),
  trust_domain: text("SPIFFE trust domain: the issuer issues JWT-SVIDs instead of tokens of service accounts."),
  audience: text("`aud` of the tokens, such as latchkey."),
  jwks_file: text(
    "File with the issuer's public keys (JWK Set, or a SPIFFE trust bundle). Read again when it changes.",
  ),
  jwks_url: text("URL of the same; default: found through the issuer's discovery document."),
  ca: text("PEM file of the authority of that URL."),
  token_file: text("File with a token that is sent to that URL, read for each request."),
  x509: v.optional(
    v.pipe(v.boolean(), v.description("X.509-SVIDs of the trust domain count too, if client_ca has verified them.")),
  ),
});

const unix = v.pipe(
  v.union(
    [
      v.strictObject({
        uid: v.pipe(userId, v.description("User who opens connections over the loopback interface (Linux).")),
      }),
      v.strictObject({
        socket: v.pipe(v.string(), v.description("Path of a Unix socket that listens for these callers alone.")),
        owner: v.optional(v.pipe(userId, v.description("User who owns it (default: that of the process)."))),
        group: v.optional(v.pipe(userId, v.description("Group of it (default: that of the process)."))),
        mode: v.optional(
          v.pipe(
            v.string(),
            v.regex(/^0?[0-7]{3}$/, 'must be three octal digits such as "0660"'),
            v.description('Permissions: who may write may connect (default: "0600").'),
          ),
        ),
      }),
    ],
    "must be {uid: …} or {socket: …, owner: …, group: …, mode: …}",
  ),
  v.description("A user of this machine or pod, or a Unix socket."),
);

/** Returns the schema of `identities` in the configuration file. */
export const identitiesSchema = ({ name, scope }: SharedSchemas) =>
  v.pipe(
    v.strictObject({
      issuers: v.optional(v.pipe(v.array(issuer), v.maxLength(20), v.description("Who issues tokens."))),
      rules: v.optional(
        v.pipe(
          v.array(
            v.strictObject({
              service_account: text("namespace/name, or namespace/* for all of the namespace."),
              issuer: text("Name of the issuer; needed if there are several with service accounts."),
              spiffe: text("SPIFFE ID. In its path, `*` is one segment, and `**` at the end any rest."),
              user: text("`sub` of a user of an issuer with users, or * for all of them. Needs issuer."),
              certificate: text("Name in a client certificate: URI:…, DNS:… or CN:…."),
              unix: v.optional(unix),
              environment: v.optional(
                v.pipe(name, v.description("Environment of the caller; none with the scope admin.")),
              ),
              scopes: v.optional(v.pipe(v.array(scope), v.minLength(1), v.description("Default: proxy."))),
              limits: v.optional(accessLimits),
            }),
          ),
          v.maxLength(1_000),
          v.description("Who may call without a key, and what it may do. The first rule that fits counts."),
        ),
      ),
    }),
    v.description("Callers that prove who they are instead of sending a key."),
  );
