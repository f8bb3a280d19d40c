import * as v from "valibot";

/** Returns the schema of `edges` in the configuration file. */
export function edgesSchema(name: v.GenericSchema<string, string>) {
  const environmentNames = v.pipe(v.array(name), v.minLength(1), v.description("Names of environments."));
  return v.pipe(
    v.strictObject({
      service_accounts: v.optional(
        v.pipe(
          v.strictObject({
            issuer: v.pipe(v.string(), v.description("`iss` of the tokens: the issuer of the cluster.")),
            audience: v.pipe(v.string(), v.nonEmpty(), v.description("`aud` of the tokens, such as latchkey.")),
            jwks_file: v.optional(v.pipe(v.string(), v.description("File with the issuer's public keys (JWK Set)."))),
            jwks_url: v.optional(
              v.pipe(
                v.string(),
                v.description("URL of the same; default: found through the issuer's discovery document."),
              ),
            ),
            ca: v.optional(v.pipe(v.string(), v.description("PEM file of the authority of that URL."))),
            token_file: v.optional(
              v.pipe(v.string(), v.description("File with a token that is sent to that URL, read for each request.")),
            ),
            allow: v.pipe(
              v.array(
                v.strictObject({
                  account: v.pipe(
                    v.string(),
                    v.description("namespace/name, or namespace/* for all of the namespace."),
                  ),
                  environments: environmentNames,
                }),
              ),
              v.minLength(1),
              v.description("Service accounts, with the environments that they may follow."),
            ),
          }),
          v.description("Tokens of Kubernetes service accounts."),
        ),
      ),
      certificates: v.optional(
        v.pipe(
          v.array(
            v.strictObject({
              name: v.pipe(v.string(), v.description("URI:…, DNS:… or CN:….")),
              environments: environmentNames,
            }),
          ),
          v.description(
            "Names in client certificates (URI:, DNS: or CN:), with the environments that they may follow.",
          ),
        ),
      ),
    }),
    v.description("Who may follow as an edge without a key."),
  );
}
